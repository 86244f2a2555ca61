// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>

#include "backend/cpu/gemm/packed_weight.h"

namespace tilelace::cpu {

/// The GEMM engine of one worker. It runs on the calling thread and is not thread safe.
class TileGemm {
 public:
  /// `max_rows`: the most rows of one call (the plan's tile_m).
  explicit TileGemm(int max_rows);
  TileGemm(TileGemm&&) noexcept;
  TileGemm& operator=(TileGemm&&) noexcept;
  ~TileGemm();

  /// Makes the primitives (of oneDNN) and scratch memory for this weight and any number of rows.
  /// Without this call, the first run with the weight makes them.
  void prepare(const PackedWeight& weight);

  /// c[rows, panel_cols] = a[rows, k] * panel^T, in fp32. `a` has the weight's dtype; `lda` and
  /// `ldc` are row strides in elements. c is not written beyond panel_cols. k = 0 gives zeros.
  /// The run is fastest with lda = k and ldc = panel_cols. Other strides cost a copy of the tile.
  void run(const PackedWeight& weight, std::int64_t panel, const void* a, std::int64_t lda,
           std::int64_t rows, float* c, std::int64_t ldc);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The name of the implementation for this type, for reports: "onednn bf16", "onednn fp32" or
/// "reference".
const char* gemm_engine_name(DType dtype);

}  // namespace tilelace::cpu
