// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gather_arrival.h"

#include <algorithm>

#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Of the time in which a product's warps send rows: its own loads wait behind theirs.
constexpr double kHeldUp = 0.4;

/// Whether a copy engine writes to several peers, one after the other.
bool pushes_in_turn(const Gathering& g) {
  const TransportRow& row = row_of(g.way.transport);
  return row.pushes() && g.way.route == RouteKind::mesh && g.ranks > 2;
}

double rate_of(const Hardware& h, const Gathering& g) {
  const TransportRow& row = row_of(g.way.transport);
  if (row.needs_nccl()) return h.fetch_gbps;
  if (row.by_workers()) return h.store_gbps;
  if (row.pulls) return h.pull_gbps;
  return h.push_gbps;
}

}  // namespace

Index sent_chunk_rows(Index rows, int targets, int ctas) {
  const Index chunks = std::max(1, ctas / std::max(1, targets));
  return schedule::max_of(1, schedule::ceil_div(rows, chunks));
}

double arrival_us(const Hardware& h, const Gathering& g, int peer, Index chunks) {
  const TransportRow& row = row_of(g.way.transport);
  const Index all = g.chunks();
  const Index of_last = chunks == 0 ? all : std::min(chunks, all);
  const auto rows =
      static_cast<double>((peer - 1) * g.rows + std::min(of_last * g.way.chunk_rows, g.rows));
  const double moved = us_at(rows * static_cast<double>(g.row_bytes), rate_of(h, g));
  if (row.by_workers()) return h.flag_us + moved;
  // A copy engine raises a flag a chunk; who relays, or pulls, waits for one before.
  const auto chunks_here = static_cast<double>((peer - 1) * all + of_last);
  const bool relays = row.pulls || (g.way.route == RouteKind::ring && g.ranks > 2);
  const double waits = relays ? chunks_here : 0;
  return chunks_here * h.copy_us + (1 + waits) * h.flag_us + moved;
}

double gathered_us(const Hardware& hardware, const Gathering& g, const ShardProducts& products,
                   int apart) {
  const int last = g.ranks - 1;
  if (last == 0) return products.us + hardware.call_us;
  const bool engine = !row_of(g.way.transport).by_workers();
  Hardware h = hardware;
  // Ranks that never wait for rows drift apart, and two of them then write to one peer at a time.
  if (pushes_in_turn(g) && products.us > arrival_us(h, g, last)) h.push_gbps = h.mesh_gbps;
  const double held_up = engine ? 0 : kHeldUp * arrival_us(h, g, last) / g.ranks;
  double us = products.us + held_up * g.ranks;
  for (int peer = 1; peer <= last; ++peer) {
    // Shards that are walked together all begin with the first of them.
    const int left = g.ranks - (peer < apart ? peer : std::min(std::max(apart, 1), last));
    const double left_us = products.left_us[static_cast<std::size_t>(left)];
    us = std::max(us, arrival_us(h, g, peer, 1) + left_us + held_up * left);
  }
  const double ends =
      arrival_us(h, g, last) + products.chunk_us + held_up / static_cast<double>(g.chunks());
  return std::max(us, ends) + h.call_us + (engine ? h.copy_us : 0);
}

}  // namespace tilelace::plan
