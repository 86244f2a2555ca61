// SPDX-License-Identifier: Apache-2.0
// What test runs put between their calls: checks that count on the device, late writes, delays.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::gpu_test {

constexpr int kMostRanks = 16;

/// Device memory, zero at the start.
struct StressTotals {
  unsigned long long calls, wrong_calls, wrong;
  unsigned long long by_owner[kMostRanks];  ///< wrong elements in rows of each rank's shard
  unsigned long long last_wrong;            ///< call number + 1
  // The first wrong element that was seen.
  unsigned int found;
  int input;
  long long call, row, col;
  float got, expected;
};

struct StressCheck {
  void* out = nullptr;             ///< [m, n]; is poisoned again
  const void* expected = nullptr;  ///< [m, n]
  std::int64_t m = 0, n = 0;
  DType dtype = DType::bf16;
  int ranks = 1;
  std::int64_t borders[kMostRanks + 1] = {};
  long long call = 0;  ///< its number (in the graph)
  int input = 0;
  StressTotals* totals = nullptr;
};

/// Compares bit by bit, into the totals.
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
/// Lets the kernel behind it begin at once, and writes only 20 us later: who reads early sees what
/// was there before.
[[nodiscard]] cudaError_t enqueue_late_copy(const LateCopy& copy, cudaStream_t stream);

/// Holds `ctas` places for that long.
[[nodiscard]] cudaError_t enqueue_spin(std::int64_t ns, int ctas, cudaStream_t stream);

}  // namespace tilelace::gpu_test
