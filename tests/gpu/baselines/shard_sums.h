// SPDX-License-Identifier: Apache-2.0
// Sums over shards: what the medium-grained way of gemm_rs ends with, and check sums over all rows
// of a result.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilelace/dtype.h"

namespace tilelace::gpu_test {

constexpr int kMostTerms = 16;

/// to[elements] = sum over terms in their order, in fp32, rounded once.
struct ShardSum {
  const void* terms[kMostTerms] = {};
  int count = 0;
  void* to = nullptr;
  std::int64_t elements = 0;  ///< a multiple of 8
  DType dtype = DType::bf16;
};
[[nodiscard]] cudaError_t enqueue_shard_sum(const ShardSum& sum, cudaStream_t stream);

/// A matrix of 16-bit elements, rows one after the other.
struct Matrix {
  const void* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::bf16;
};

/// to[cols] = sum over rows r of (1 + r % 7) * data[r]: rows that change places change it.
[[nodiscard]] cudaError_t enqueue_row_total(const Matrix& matrix, double* to, cudaStream_t stream);
/// to[rows of the weight] = from[cols] * weight^T.
[[nodiscard]] cudaError_t enqueue_total_product(const double* from, const Matrix& weight,
                                                double* to, cudaStream_t stream);

}  // namespace tilelace::gpu_test
