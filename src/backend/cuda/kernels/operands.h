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

/// `rows` is the operand of the tile's rows, `cols` the operand of its columns: activations and
/// weight, or, in swapped tiles, weight and activations.
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

/// Several weights of a kernel: maps of all but the first; biases and numbers of columns of all.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int count;  ///< number of weights; 1: only the one in GemmOperands
};

/// The tile that a CTA computes. The CTA has number `cta` and row `cta_row` in its cluster, which
/// shares the worker's tile.
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
/// The same for CTAs whose tokens may all lie beyond the matrix: the map is null if they do.
struct TailSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD bool there() const { return map != nullptr; }
};

}  // namespace tilelace::cuda
