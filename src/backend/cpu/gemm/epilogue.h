// SPDX-License-Identifier: Apache-2.0
// Steps on fp32 tiles after the product. Strides are in elements of their own array; nothing
// outside [rows, cols] is read or written, and inputs and outputs do not overlap.
#pragma once
#include <cstdint>

#include "tilelace/dtype.h"
#include "tilelace/plan.h"

namespace tilelace::cpu {

/// out[r, c] = round(act(acc[r, c] + bias[c])), rounded once to `dtype`, which is also the biases'
/// type. A null bias counts as zero; biases start at the tile's first column. A residual has the
/// shape and type of `out`, is added before rounding, and comes without an activation. For swiglu,
/// out = silu(acc + bias) * (acc2 + bias2): acc is gate, acc2 is up. `clamped`: gpt-oss's form of
/// swiglu (tilelace/moe.h). `row_scales`: a factor per row, applied before rounding.
struct Epilogue {
  Activation activation = Activation::none;
  DType dtype{};
  const void* bias = nullptr;
  const void* bias2 = nullptr;
  const void* residual = nullptr;
  std::int64_t ldresidual = 0;
  bool clamped = false;
  const float* row_scales = nullptr;
};

/// `acc2` is only for swiglu and has the stride of `acc`.
void store_tile(const Epilogue& epilogue, const float* acc, const float* acc2, std::int64_t ldacc,
                std::int64_t rows, std::int64_t cols, void* out, std::int64_t ldout);

/// acc += partial.
void add_tile(float* acc, std::int64_t ldacc, const void* partial, DType dtype,
              std::int64_t ldpartial, std::int64_t rows, std::int64_t cols);
/// acc = partial, for the first term of a sum.
void load_tile(float* acc, std::int64_t ldacc, const void* partial, DType dtype,
               std::int64_t ldpartial, std::int64_t rows, std::int64_t cols);
/// out = acc, rounded.
void round_tile(const float* acc, std::int64_t ldacc, std::int64_t rows, std::int64_t cols,
                void* out, DType dtype, std::int64_t ldout);

}  // namespace tilelace::cpu
