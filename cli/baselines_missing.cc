// SPDX-License-Identifier: Apache-2.0
// A build without CUDA, or without NCCL's header.
#include "baselines.h"
#include "core/check.h"

namespace tilelace::cli {

struct Baselines::Impl {};
Baselines::Baselines(Communicator& /*member*/, const Workload& /*work*/, GpuTimes& /*times*/) {
  raise(ErrorKind::usage,
        "--baselines: this build has no baselines: it was built without CUDA or without nccl.h");
}
Baselines::~Baselines() = default;
std::vector<Peer> Baselines::peers(const Job& /*job*/, CallTensors& /*tensors*/,
                                   const RankWeights& /*weights*/) {
  return {};
}
std::vector<Peer> Baselines::peers(const Job& /*mlp*/, CallTensors& /*first*/,
                                   const RankWeights& /*first_weights*/, CallTensors& /*then*/,
                                   const RankWeights& /*then_weights*/) {
  return {};
}

}  // namespace tilelace::cli
