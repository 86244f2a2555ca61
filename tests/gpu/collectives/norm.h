// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on GPUs: random calls bit by bit, and what it takes beside all_reduce alone.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/collectives/collective_calls.h"
#include "harness.h"

namespace tilelace::gpu_test {

/// How a rank calls.
struct NormCaller {
  int rank, ranks;
  cudaStream_t stream;
  std::function<void()> meet;  ///< all ranks; what follows allocates nothing until a call is over
  std::function<void(const AllReduceNormArgs&, const CollectiveOptions&)> enqueue;
  std::function<void()> finish;
};

/// By kernels alone.
NormCaller kernel_caller(Rank&, cuda::CollectiveCalls&, cudaStream_t, double timeout_s);

/// What is wrong, at most one finding a call.
std::vector<std::string> check_norms(const NormCaller&, int calls, std::uint64_t seed);

/// What a rank is timed with.
struct NormBench {
  Rank& rank;
  cuda::CollectiveCalls& calls;
  cudaStream_t stream;
  double timeout_s;
};
/// Lines "norm M N QUANT: us, all_reduce us" of graphs of 20 calls; sizes: m, n, m, n ...
void bench_norms(const NormBench&, const std::vector<std::int64_t>& sizes,
                 const CollectiveOptions&);

}  // namespace tilelace::gpu_test
