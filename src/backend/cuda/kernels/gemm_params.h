// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>

#include "comm/signal.h"
#include "schedule/gemm.h"
#include "tilelace/plan.h"

namespace tilelace::cuda {

/// Where tiles whose k-steps are shared keep their partials. For one stream at a time.
struct GemmScratch {
  float* partials;         ///< a tile a CTA
  comm::Flag* flags;       ///< kMathGroups a CTA; only grow
  comm::Flag* launches;    ///< how often this CTA has been launched with shared tiles
  comm::AbortWord* abort;  ///< set when a wait expired
  std::int64_t wait_ns;
  int ctas;  ///< that the arrays are for
};

/// Everything that a launch of the GEMM is told. `rows` is the operand on the row side of the tile,
/// `cols` on its column side: activations and weight, or the other way round in the swapped form.
struct GemmParams {
  CUtensorMap rows;
  CUtensorMap cols;
  CUtensorMap out;       ///< 64 columns x 64 rows a store
  CUtensorMap out_rest;  ///< what a width that 64 does not divide leaves over
  schedule::GemmWork work;
  GemmScratch scratch;
  const std::uint16_t* places;  ///< worker of each cluster, or null: against the order of dispatch
  const void* bias;             ///< [n] or null
  int n;                        ///< columns of the result
  Activation activation;
};

}  // namespace tilelace::cuda
