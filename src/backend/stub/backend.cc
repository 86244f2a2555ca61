// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include "backend/call_timer.h"
#include "backend/cuda_support.h"
#include "backend/gpu_sight.h"
#include "core/check.h"

namespace tilelace {

int cuda_device_of(int /*local_rank*/) {
  raise(ErrorKind::usage, "communicator: device: got cuda, expected cpu: {}", cuda_missing());
}

std::unique_ptr<Backend> make_cuda_backend(comm::Group& /*group*/,
                                           const CommunicatorOptions& /*options*/) {
  raise(ErrorKind::usage, "communicator: device: got cuda, expected cpu: {}", cuda_missing());
}

std::unique_ptr<MoePasses> make_gpu_moe_passes() {
  raise(ErrorKind::usage, "grouped_gemm: device: got cuda, expected cpu: {}", cuda_missing());
}

std::unique_ptr<CallTimer> make_call_timer(int /*device*/) {
  raise(ErrorKind::usage, "communicator: device: got cuda, expected cpu: {}", cuda_missing());
}

GpuSight look_at_gpu(int /*device*/) noexcept { return {}; }

}  // namespace tilelace
