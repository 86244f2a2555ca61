// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/link.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/mapped_link.h"
#include "core/check.h"

namespace tilelace::cpu {
namespace {

std::unique_ptr<Link> make_link(const comm::LinkRow& row, const std::shared_ptr<Wire>& wire) {
  switch (row.kind) {
    case comm::LinkKind::wire: return std::make_unique<WireLink>(row, wire);
    case comm::LinkKind::shared_memory: return std::make_unique<SharedMemoryLink>(row);
    case comm::LinkKind::peer_memory:
    case comm::LinkKind::nccl: break;
  }
  raise(ErrorKind::usage, "communicator: link: got {}, expected a link of CPU ranks", row.name);
}

}  // namespace

void copy_rows(const RowsCopy& c) {
  if (c.to_stride == c.width && c.from_stride == c.width) {
    std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes()));
    return;
  }
  for (std::int64_t r = 0; r < c.rows; ++r)
    std::memcpy(c.to + r * c.to_stride, c.from + r * c.from_stride,
                static_cast<std::size_t>(c.width));
}

std::vector<std::unique_ptr<Link>> join_links(int rank, int ranks, const CommunicatorOptions& o) {
  const auto wire = std::make_shared<Wire>(o.link_bytes_per_s, o.link_latency_s);
  const bool metered = o.link_bytes_per_s > 0 || o.link_latency_s > 0;
  std::vector<std::unique_ptr<Link>> links(static_cast<std::size_t>(ranks));
  for (int p = 0; p < ranks; ++p) {
    if (p == rank) continue;
    const comm::RankPair pair{std::min(p, rank), std::max(p, rank), Device::cpu, metered};
    links[static_cast<std::size_t>(p)] = make_link(comm::link_of(pair), wire);
  }
  return links;
}

}  // namespace tilelace::cpu
