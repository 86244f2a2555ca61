// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/link/join_devices.h"

#include <algorithm>

#include "comm/cuda/peer_access.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

/// Two ranks on a device would wait for each other's place on it.
void require_own_devices(const std::vector<std::string>& uuids) {
  for (std::size_t q = 0; q < uuids.size(); ++q)  // every rank finds the same
    for (std::size_t p = 0; p < q; ++p)
      require(uuids[p] != uuids[q],
              "prepare: ranks {} and {} share device {}: give each rank its own", p, q, uuids[q]);
}

}  // namespace

void require_signals(const comm::LinkRow& link, int low, int high) {
  if (link.signals) return;
  raise(ErrorKind::system,
        "prepare: the GPUs of ranks {} and {} cannot reach each other's memory (no peer access), "
        "but kernels need it: choose GPUs with peer access (see `tilelace doctor`)",
        low, high);
}

std::vector<const comm::LinkRow*> join_devices(comm::Group& group, int device,
                                               const std::string& uuid, double timeout_s) {
  const auto uuids = group.all_gather(uuid, timeout_s);
  require_own_devices(uuids);
  std::string reached;  // a device that is hidden from this process: mapping will tell
  for (const std::string& peer : uuids)
    reached += peer == uuid || comm::peer_access(device, peer).granted ? '1' : '0';
  const auto all = group.all_gather(reached, timeout_s);
  std::vector<const comm::LinkRow*> links(uuids.size());
  const auto self = static_cast<std::size_t>(group.rank());
  for (std::size_t q = 0; q < all.size(); ++q)
    for (std::size_t p = 0; p < q; ++p) {
      const bool both = all[p].at(q) == '1' && all[q].at(p) == '1';
      const comm::RankPair pair{static_cast<int>(p), static_cast<int>(q), Device::cuda, false,
                                both};
      const comm::LinkRow& link = comm::link_of(pair);
      require_signals(link, pair.low, pair.high);
      if (p == self) links[q] = &link;
      if (q == self) links[p] = &link;
    }
  return links;
}

}  // namespace tilelace::cuda
