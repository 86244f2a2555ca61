// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gather_arrival.h"

#include <algorithm>

#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Of the time in which a product's warps send rows: its own loads wait behind theirs.
constexpr double kHeldUp = 0.4;

double rate_of(const Hardware& h, const Gathering& g) {
  const TransportRow& row = row_of(g.way.transport);
  if (row.needs_nccl()) return h.fetch_gbps;
  if (row.by_workers()) return h.store_gbps;
  if (row.pulls) return h.pull_gbps;
  return g.way.route == RouteKind::mesh && g.ranks > 2 ? h.mesh_gbps : h.push_gbps;
}

}  // namespace

double arrival_us(const Hardware& h, const Gathering& g, int peer, Index chunks) {
  const TransportRow& row = row_of(g.way.transport);
  const Index all = g.chunks();
  const Index of_last = chunks == 0 ? all : std::min(chunks, all);
  const auto rows =
      static_cast<double>((peer - 1) * g.rows + std::min(of_last * g.way.chunk_rows, g.rows));
  const double moved = us_at(rows * static_cast<double>(g.row_bytes), rate_of(h, g));
  // A sender raises a chunk's flag once pieces behind it have left.
  if (row.by_workers()) return h.flag_us * (g.way.senders > 0 ? 2 : 1) + moved;
  // A copy engine raises a flag a chunk; who relays, or pulls, waits for one before.
  const auto flags = static_cast<double>((peer - 1) * all + of_last - 1);
  const bool relays = row.pulls || (g.way.route == RouteKind::ring && g.ranks > 2);
  const double start = h.copy_us + h.flag_us * (row.pulls ? 2 : 1);
  return start + flags * h.flag_us * (relays ? 2 : 1) + moved;
}

double gathered_us(const Hardware& h, const Gathering& g, double products_us, int apart) {
  const int last = g.ranks - 1;
  if (last == 0) return products_us + h.call_us;
  const bool engine = !row_of(g.way.transport).by_workers();
  if (!engine && g.way.senders == 0) products_us += kHeldUp * arrival_us(h, g, last);
  const double each = products_us / g.ranks;
  double us = products_us;
  for (int peer = 1; peer <= last; ++peer) {
    // Shards that are walked together all begin with the first of them.
    const int begun = peer < apart ? peer : std::min(std::max(apart, 1), last);
    us = std::max(us, arrival_us(h, g, peer, 1) + each * (g.ranks - begun));
  }
  const double ends = arrival_us(h, g, last) + each / static_cast<double>(g.chunks());
  return std::max(us, ends) + h.call_us + (engine ? h.copy_us : 0);
}

}  // namespace tilelace::plan
