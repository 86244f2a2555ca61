// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on GPUs: checks random calls bit by bit.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/collectives/collective_calls.h"
#include "harness.h"

namespace tilelace::gpu_test {

/// How a rank makes a call.
struct NormCaller {
  int rank, ranks;
  cudaStream_t stream;
  std::function<void()> meet;  ///< barrier of all ranks; then no rank allocates until the call ends
  std::function<void(const AllReduceNormArgs&, const CollectiveOptions&)> enqueue;
  std::function<void()> finish;
};

/// A caller that launches the kernels directly, without the public API.
NormCaller kernel_caller(Rank&, cuda::CollectiveCalls&, cudaStream_t, double timeout_s);

/// Makes `calls` random calls. Returns what is wrong: at most one finding per call.
std::vector<std::string> check_norms(const NormCaller&, int calls, std::uint64_t seed);

}  // namespace tilelace::gpu_test
