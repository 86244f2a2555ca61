// SPDX-License-Identifier: Apache-2.0
// What every GEMM kernel is told, whichever op it is of. Plain data, for kernels and for the host.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/trace.h"
#include "comm/signal.h"
#include "plan/gemm_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

constexpr int kMathGroups = 2;  ///< of a CTA, at most

/// Where tiles whose k-steps are shared keep their partials. For one stream at a time.
struct GemmScratch {
  float* partials;         ///< a tile a CTA
  comm::Flag* flags;       ///< kMathGroups a CTA; only grow
  comm::Flag* launches;    ///< likewise: launches with shared tiles that it has had
  comm::AbortWord* abort;  ///< set when a wait expired
  std::int64_t wait_ns;
  int ctas;  ///< that the arrays are for
};

/// `rows` is the operand on the row side of the tile, `cols` on its column side: activations and
/// weight, or the other way round in the swapped form.
struct GemmOperands {
  CUtensorMap rows;
  CUtensorMap cols;
  GemmScratch scratch;
  const std::uint16_t* places;  ///< worker of each cluster, or null: against the order of dispatch
  const void* bias;             ///< [n] or null
  int n;                        ///< columns of the result
  Activation activation;
  bool weights_wait;  ///< the kernel before this one may still write them
  TILELACE_TRACE_SINK
};

/// Of a gated product: the weight beside the gate's, which is in GemmOperands.
struct UpWeight {
  CUtensorMap map;
  const void* bias;  ///< [n] or null
};

/// Weights behind the first one that a kernel takes at once, and the columns of all.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int count;  ///< of all; 1: GemmOperands has it
};

/// Which tile of CTAs a CTA computes. `cta`: its number in the cluster that the tile is of, and
/// `cta_row` its row there.
struct CtaTile {
  int row, col;
  int cta_row, cta;
};

/// From where a tile's tokens are loaded: a map, and the first token in it.
struct TokenSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD constexpr bool there() const { return true; }
};
/// The same where a CTA's tokens may all lie beyond the matrix: then there is no map.
struct TailSource {
  const CUtensorMap* map;
  int first;
  [[nodiscard]] TILELACE_HD bool there() const { return map != nullptr; }
};

}  // namespace tilelace::cuda
