// SPDX-License-Identifier: Apache-2.0
// Kernels of all_reduce_norm, an exchange of whole rows. On every rank a CTA, or a cluster for long
// rows, sums and normalises each row.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "plan/collectives/norm.h"
#include "tilelace/all_reduce_norm.h"

namespace tilelace::cuda {

/// One piece of a call. The caller's tensors have contiguous rows of `row_units` 16-byte units.
struct NormParams {
  ExchangeParams exchange;  ///< a row in `exchange` has parts * part_places units, with padding
  const uint4* x;
  const uint4* residual;
  const uint4* weight;
  uint4* out;
  uint4* normed;
  uint2* quantised;
  float* scales;
  std::int64_t rows;
  int row_units;
  int parts, part_places;  ///< parts: CTAs that share a row; part_places: room of one CTA, in units
  int chunk_rows;
  float share;  ///< 1 / (number of elements in a row)
  float eps;
  NormQuant quant;
};

/// These functions are like those of exchange.h without `norm_` in their names.
[[nodiscard]] cudaError_t enqueue_norm_lines(const NormParams&, Start, cudaStream_t);
[[nodiscard]] cudaError_t enqueue_norm_chunks(const NormParams&, Start, cudaStream_t);
[[nodiscard]] cudaError_t load_norm_lines();
[[nodiscard]] cudaError_t load_norm_chunks();

}  // namespace tilelace::cuda
