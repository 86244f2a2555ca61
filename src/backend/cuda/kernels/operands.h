// SPDX-License-Identifier: Apache-2.0
// Parameters of every GEMM kernel, for all ops. Plain data, for kernels and for the host.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/trace.h"
#include "comm/signal.h"
#include "plan/gemm_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

constexpr int kMathGroups = 2;  ///< the most math groups of a CTA

/// Scratch memory in which tiles with shared k-steps keep partials. For one stream at a time.
struct GemmScratch {
  float* partials;         ///< one tile per CTA; two if groups take turns
  comm::Flag* flags;       ///< kMathGroups per CTA; they only grow
  comm::Flag* launches;    ///< kMathGroups per CTA: number of launches with shared tiles so far
  comm::AbortWord* abort;  ///< set when a wait timed out
  std::int64_t wait_ns;
  int ctas;  ///< size of the arrays
};

/// `rows` is the operand on the tile's row side, `cols` that on its column side: activations and
/// weight, or the other way round in the swapped form.
struct GemmOperands {
  CUtensorMap rows;
  CUtensorMap cols;
  GemmScratch scratch;
  const std::uint16_t* places;  ///< worker of each cluster; null: reverse order of dispatch
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

/// More weights that a kernel takes at once, and the columns of all its weights.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int count;  ///< number of weights; 1: only that in GemmOperands
};

/// The tile that a CTA computes. `cta` is the CTA's number, and `cta_row` its row, in the cluster
/// that shares the worker's tile.
struct CtaTile {
  int row, col;
  int cta_row, cta;
};

/// Where a tile's tokens are loaded from: a map, and the first token in it.
struct TokenSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD constexpr bool there() const { return true; }
};
/// The same if all tokens of a CTA may lie beyond the matrix; then the map is null.
struct TailSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD bool there() const { return map != nullptr; }
};

}  // namespace tilelace::cuda
