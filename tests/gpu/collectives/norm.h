// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on GPUs: checks random calls bit by bit, and compares its time with all_reduce's.
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

/// What a rank needs to be timed.
struct NormBench {
  Rank& rank;
  cuda::CollectiveCalls& calls;
  cudaStream_t stream;
  double timeout_s;
};
/// Times calls in graphs of 20, and prints lines "norm M N quant Q: US, all_reduce US". `sizes`:
/// pairs of m and n, one after the other.
void bench_norms(const NormBench&, const std::vector<std::int64_t>& sizes,
                 const CollectiveOptions&);

}  // namespace tilelace::gpu_test
