// SPDX-License-Identifier: Apache-2.0
// Kernels that test runs enqueue between calls: checks that count errors, late writes, delays.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::gpu_test {

constexpr int kMostRanks = 16;

/// Totals in device memory, zero at first.
struct StressTotals {
  unsigned long long calls, wrong_calls, wrong;
  unsigned long long by_owner[kMostRanks];  ///< wrong elements in the rows of each rank's shard
  unsigned long long last_wrong;            ///< 1 + the number of the last wrong call; 0: none
  // The next members describe the first wrong element that was found.
  unsigned int found;
  int input;
  long long call, row, col;
  float got, expected;
};

struct StressCheck {
  void* out = nullptr;             ///< [m, n]; poisoned again after the check
  const void* expected = nullptr;  ///< [m, n]
  std::int64_t m = 0, n = 0;
  DType dtype = DType::bf16;
  int ranks = 1;
  std::int64_t borders[kMostRanks + 1] = {};
  long long call = 0;  ///< number of the call; in a replay, the number of the captured call
  int input = 0;
  StressTotals* totals = nullptr;
};

/// Compares bit by bit, except that 0 equals -0, and adds to the totals.
[[nodiscard]] cudaError_t enqueue_check(const StressCheck& check, cudaStream_t stream);

struct LatePiece {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;  ///< a multiple of 2
};
constexpr int kMostLatePieces = 8;
struct LateCopy {
  LatePiece piece[kMostLatePieces];
  int pieces = 0;
};
/// Lets the next kernel begin at once, but copies only 20 us later, so that a kernel that reads too
/// early sees old data.
[[nodiscard]] cudaError_t enqueue_late_copy(const LateCopy& copy, cudaStream_t stream);

/// Occupies the places of `ctas` CTAs on SMs for `ns`.
[[nodiscard]] cudaError_t enqueue_spin(std::int64_t ns, int ctas, cudaStream_t stream);

}  // namespace tilelace::gpu_test
