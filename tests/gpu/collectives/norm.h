// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on GPUs: random calls bit by bit, and what it takes beside all_reduce alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/collectives/collective_calls.h"
#include "harness.h"

namespace tilelace::gpu_test {

/// What a rank calls with.
struct NormCaller {
  Rank& rank;
  cuda::CollectiveCalls& calls;
  cudaStream_t stream;
  double timeout_s;
};

/// What is wrong, at most one finding a call.
std::vector<std::string> check_norms(const NormCaller&, int calls, std::uint64_t seed);

/// Lines "norm M N QUANT: us, all_reduce us" of graphs of 20 calls; sizes: m, n, m, n ...
void bench_norms(const NormCaller&, const std::vector<std::int64_t>& sizes,
                 const CollectiveOptions&);

}  // namespace tilelace::gpu_test
