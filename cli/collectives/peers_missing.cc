// SPDX-License-Identifier: Apache-2.0
// A build without CUDA, or without NCCL's header.
#include "collectives/peers.h"
#include "core/check.h"

namespace tilelace::cli {

std::string nccl_version_text() { return {}; }

struct CollectivePeers::Impl {};
CollectivePeers::CollectivePeers(Communicator& /*member*/, const CollectiveWork& /*work*/,
                                 std::size_t /*bytes*/, GpuTimes& /*times*/) {
  raise(ErrorKind::usage,
        "--baselines: this build has no baselines: it was built without CUDA or without nccl.h");
}
CollectivePeers::~CollectivePeers() = default;
std::vector<CollectivePeer> CollectivePeers::peers(const CollectiveShape& /*shape*/) const {
  return {};
}

}  // namespace tilelace::cli
