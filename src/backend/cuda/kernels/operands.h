// SPDX-License-Identifier: Apache-2.0
// Parameters that the GEMM kernels of all ops share. Plain data, for kernels and for the host.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/trace.h"
#include "comm/signal.h"
#include "plan/gemm_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

constexpr int kMathGroups = 2;  ///< the most groups of a CTA that multiply

/// Memory for partials of tiles whose k-steps several CTAs share. For one stream at a time.
struct GemmScratch {
  float* partials;         ///< one fp32 partial per CTA; two if math groups take turns
  comm::Flag* flags;       ///< kMathGroups per CTA; their values only grow
  comm::Flag* launches;    ///< kMathGroups per CTA: number of launches with shared tiles so far
  comm::AbortWord* abort;  ///< set once a wait has timed out
  std::int64_t wait_ns;
  int ctas;  ///< number of CTAs that the arrays have room for
};

/// `rows`: map of the operand that gives the tile's rows; `cols`: of that which gives its columns.
/// They are activations and weight or, in swapped tiles, weight and activations.
struct GemmOperands {
  CUtensorMap rows;
  CUtensorMap cols;
  GemmScratch scratch;
  const std::uint16_t* places;  ///< worker number of each cluster; null: reverse order of dispatch
  const void* bias;             ///< [n] or null
  int n;                        ///< columns of the result
  Activation activation;
  bool weights_wait;  ///< the previous kernel may still write weights
  TILELACE_TRACE_SINK
};

/// For a gated GEMM: the up weight (the gate's weight is in GemmOperands).
struct UpWeight {
  CUtensorMap map;
  const void* bias;  ///< [n] or null
};

/// The weights of a kernel that takes several: maps of all but the first; biases and widths of all.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int count;  ///< number of weights; 1: only that of GemmOperands
};

/// The tile that a CTA computes, at (row, col) in units of such tiles; it is a part of the
/// cluster's tile. The CTA has number `cta` and is in row `cta_row` of its cluster.
struct CtaTile {
  int row, col;
  int cta_row, cta;
};

/// Where a tile's tokens are loaded from: a map, and the row in it of the first token.
struct TokenSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD constexpr bool there() const { return true; }
};
/// The same for CTAs whose tokens may all lie beyond the end of the matrix; if so, the map is null.
struct TailSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD bool there() const { return map != nullptr; }
};

}  // namespace tilelace::cuda
