// SPDX-License-Identifier: Apache-2.0
// Parameters that the GEMM kernels of all ops share. Plain data that the host reads, too.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/trace.h"
#include "comm/signal.h"
#include "plan/gemm_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

constexpr int kMathGroups = 2;  ///< the most math warpgroups of a CTA

/// Memory for partials of tiles whose k-steps several CTAs share. For one stream at a time.
struct GemmScratch {
  float* partials;         ///< one fp32 partial per CTA; two if math groups alternate (ping-pong)
  comm::Flag* flags;       ///< kMathGroups flags per CTA, whose values only grow
  comm::Flag* launches;    ///< per CTA and math group: number of launches with shared tiles so far
  comm::AbortWord* abort;  ///< set once a wait has timed out
  std::int64_t wait_ns;
  int ctas;  ///< number of CTAs that the arrays have room for
};

/// `rows`: map of the operand that gives a tile's rows, which is the activations or, in swapped
/// tiles, the weight. `cols`: map of the other operand, which gives a tile's columns.
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

/// For a kernel of several weights, whose results stand side by side in the order of tiles. map[i]
/// is for weight i + 1; the other arrays' entry i is for weight i.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int first[plan::kMostWeights];  ///< first tile, along columns of the result; INT_MAX: no weight
};

/// The tile that a CTA computes, a part of its cluster's tile. `row` and `col` are in units of
/// CTAs' tiles. The CTA has number `cta` in its cluster and is in the cluster's row `cta_row`.
struct CtaTile {
  int row, col;
  int cta_row, cta;
  int weight = 0;  ///< index of the weight, in whose results `row` and `col` are counted
};

/// Where a tile's tokens are loaded from. The first token is row `first` of the map's matrix.
struct TokenSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD constexpr bool there() const { return true; }
};
/// The same for CTAs whose tokens may all lie beyond the matrix's end; if they do, the map is null.
struct TailSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD bool there() const { return map != nullptr; }
};

}  // namespace tilelace::cuda
