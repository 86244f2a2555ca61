// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/record.h"
#include "comm/signal.h"
#include "schedule/gather_order.h"
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

/// What every GEMM is told. `rows` is the operand on the row side of the tile, `cols` on its column
/// side: activations and weight, or the other way round in the swapped form.
struct GemmCommon {
  CUtensorMap rows;
  CUtensorMap cols;
  GemmScratch scratch;
  const std::uint16_t* places;  ///< worker of each cluster, or null: against the order of dispatch
  const void* bias;             ///< [n] or null
  int n;                        ///< columns of the result
  Activation activation;
};

struct GemmParams : GemmCommon {
  static constexpr bool kGathers = false;
  CUtensorMap out;       ///< 64 columns x 64 rows a store
  CUtensorMap out_rest;  ///< what a width that 64 does not divide leaves over
  schedule::GemmWork work;
};

/// The GEMM of ag_gemm: activations are this rank's staging, or `own` for its own shard.
struct AgGemmParams : GemmCommon {
  static constexpr bool kGathers = true;
  CUtensorMap own;
  CUtensorMap out[schedule::kMaxSections];  ///< of each section: nothing is stored beyond its end
  CUtensorMap out_rest[schedule::kMaxSections];
  schedule::GemmWorkOf<schedule::GatherOrder> work;
  int rank;
  const comm::Flag* flags;      ///< of the call's slot
  const comm::Header* headers;  ///< of slot 0, by rank; those of slot 1 follow
  const comm::Flag* epoch;      ///< the call's number
  std::uint32_t hash;           ///< of what must agree
  WaitContext wait;
};

}  // namespace tilelace::cuda
