// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cpu/gemm/packed_weight.h"

namespace tilelace::cpu {

/// One worker's GEMM engine. Not thread safe: each worker has its own. Runs on the calling
/// thread.
class TileGemm {
 public:
  /// `max_rows`: the most rows of one call (the plan's tile_m).
  explicit TileGemm(int max_rows);
  TileGemm(TileGemm&&) noexcept;
  TileGemm& operator=(TileGemm&&) noexcept;
  ~TileGemm();

  /// Makes the primitives and scratch memory for calls with this weight, for any number of rows.
  /// Without it the first run with the weight does so.
  void prepare(const PackedWeight& weight);

  /// c[rows, panel_cols] = a[rows, k] * panel^T, in fp32. `a` has the weight's dtype; `lda` and
  /// `ldc` are row strides in elements. Nothing else of c is written. k = 0 gives zeros.
  /// Fastest with lda = k and ldc = panel_cols: other strides cost a copy of the tile.
  void run(const PackedWeight& weight, std::int64_t panel, const void* a, std::int64_t lda,
           std::int64_t rows, float* c, std::int64_t ldc);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The implementation for this type, for reports: "onednn bf16", "onednn fp32", "reference".
const char* gemm_engine_name(DType dtype);

}  // namespace tilelace::cpu
