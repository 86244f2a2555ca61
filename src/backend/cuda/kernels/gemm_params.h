// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda.h>

#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/shared_results.h"
#include "backend/cuda/device/trace.h"
#include "plan/gemm_tiles.h"
#include "schedule/gather_order.h"
#include "schedule/push_order.h"
#include "schedule/reduce_order.h"
#include "schedule/share_order.h"
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
  bool weights_wait;  ///< the kernel before this one may still write them
  TILELACE_TRACE_SINK
};

/// A product alone.
struct GemmAlone : GemmCommon {
  static constexpr bool kGathers = false;
  static constexpr bool kReduces = false;
  static constexpr bool kShares = false;
  static constexpr bool kGates = false;
  static constexpr bool kClips = false;
  CUtensorMap out;       ///< 64 columns x 64 rows a store
  CUtensorMap out_rest;  ///< what a width that 64 does not divide leaves over
  schedule::GemmWork work;
};

/// kClips: of a tile whose last tokens lie beyond the matrix little more is loaded than is there. A
/// copy of all fills the rest with zeros, which takes longer than to load it
/// (docs/decisions/0020).
struct GemmParams : GemmAlone {
  static constexpr bool kClips = true;
  CUtensorMap few;  ///< of the tokens' operand, for the one slice that is there in part
  int tokens;       ///< of the matrix
};

/// Weights behind the first one that a kernel of ag_gemm takes, and the columns of all.
struct MoreWeights {
  CUtensorMap map[plan::kMostWeights - 1];
  const void* bias[plan::kMostWeights];  ///< [n] or null
  int n[plan::kMostWeights];
  int count;  ///< of all; 1: `GemmCommon` has it
};

/// The GEMM of ag_gemm: activations are this rank's staging, or `own` for its own shard.
struct AgGemmParams : GemmCommon {
  static constexpr bool kClips = false;
  static constexpr bool kGathers = true;
  static constexpr bool kReduces = false;
  static constexpr bool kShares = false;
  static constexpr bool kGates = false;
  CUtensorMap own;
  MoreWeights weights;
  CUtensorMap out[schedule::kMaxSections];  ///< of each section: nothing is stored beyond its end
  CUtensorMap out_rest[schedule::kMaxSections];
  schedule::GemmWorkOf<schedule::GatherOrder> work;
  CallParams call;
  bool rows_here;            ///< the kernel before this one waited for all of them, or was stopped
  schedule::PushOrder push;  ///< of the call's first kernel; no pieces: others send
  const std::byte* input;    ///< own rows
  std::size_t staged;        ///< offset of the slot's rows, [m, k]
  std::int64_t row_bytes;
};

/// Of tiles with tokens across.
struct AgGemmAcrossParams : AgGemmParams {
  static constexpr bool kClips = true;
  CUtensorMap few[schedule::kMaxSections];  ///< of each section
};

/// Two products in one, of gate (`cols`, `bias`) and up: half of a tile's columns are one's, half
/// the same columns of the other's, and silu(gate) * up is what is stored.
struct GemmGatedParams : GemmParams {
  static constexpr bool kGates = true;
  CUtensorMap up;
  const void* up_bias;  ///< [n] or null
};
struct AgGemmGatedParams : AgGemmParams {
  static constexpr bool kGates = true;
  CUtensorMap up;
  const void* up_bias;  ///< [n] or null
};

/// A GEMM whose partial sums for a peer's rows go into its slot; own ones are added up.
struct ReduceCommon : GemmCommon {
  static constexpr bool kGathers = false;
  static constexpr bool kReduces = true;
  static constexpr bool kClips = false;
  CallParams call;
  const void* residual;  ///< [own rows, n] or null: added to the sum
  int own_rows;
  /// Offset: what each CTA of each partial leaves. Its flags: one a math group, from call.flags on.
  std::size_t partials;
  std::uint32_t pace;  ///< between pieces of a partial that leaves: 1/16384 of a turn
  int term_pieces;     ///< of each peer and group in a step of the ring
  int term_steps;      ///< that follow the k-steps of an own tile
};

/// The GEMM of gemm_rs.
template <class Order>
struct GemmRsParamsOf : ReduceCommon {
  static constexpr bool kShares = false;
  static constexpr bool kGates = false;
  CUtensorMap out;  ///< own rows
  CUtensorMap out_rest;
  schedule::GemmWorkOf<Order> work;
};
struct GemmRsParams : GemmRsParamsOf<schedule::ReduceOrder> {};
/// Of tiles with tokens across.
struct GemmRsAcrossParams : GemmRsParams {
  static constexpr bool kClips = true;
  CUtensorMap few[schedule::kMaxGpuRanks];  ///< of each section
};
struct GemmRsPairParams : GemmRsParamsOf<schedule::PairOrder> {};

/// Whether the CTAs of a cluster have tiles of two shards.
template <class Params>
inline constexpr bool kPairs = requires {
  requires decltype(Params::work.order)::kPairs;
};

/// The GEMM of gemm_ar: own rows go to all ranks.
struct GemmArParams : ReduceCommon {
  static constexpr bool kShares = true;
  static constexpr bool kGates = false;
  CUtensorMap out[schedule::kMaxGpuRanks];  ///< i: own rows at rank + i, 0: at this rank
  CUtensorMap out_rest[schedule::kMaxGpuRanks];
  schedule::GemmWorkOf<schedule::ShareOrder> work;
  SharedResults shared;      ///< its first flag at a peer: of the tiles that it is given
  std::uint32_t share_pace;  ///< between chunks of a tile that is shared: 1/16384 of a turn
  std::uint32_t hold;        ///< cycles that partials of the columns' second half wait
  bool direct;  ///< results: it ends once all tiles of peers are here; else it takes them there
};

/// Whether tokens are rows in an order of shards, but columns of a tile.
template <class Params>
inline constexpr bool kTurns = Params::kClips && (Params::kGathers || Params::kReduces);

/// Where a tile lies by its own rows and columns.
template <class Params>
TILELACE_HD schedule::GemmCell turned(const Params& p, schedule::GemmCell cell) {
  if constexpr (kTurns<Params>) {
    if constexpr (Params::kGathers)
      if (p.work.order.whole) return cell;
    return {cell.col, cell.row, cell.section};
  } else {
    return cell;
  }
}

}  // namespace tilelace::cuda
