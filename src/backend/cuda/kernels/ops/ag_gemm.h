// SPDX-License-Identifier: Apache-2.0
// ag_gemm: a GEMM whose tokens come from peers. Tiles are walked shard by shard in order of
// arrival, or all rows are walked as one matrix. The loading warp waits for the flags of the rows
// that it loads, another warp waits for the peers' headers, and this rank's rows may be sent, too
// (send_rows.h).
#pragma once
#include "backend/cuda/device/call_params.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gather_order.h"
#include "schedule/push_order.h"
#ifdef __CUDACC__
#include "backend/cuda/kernels/gathered_rows.h"
#include "backend/cuda/kernels/plain_hooks.h"
#include "backend/cuda/kernels/section_tokens.h"
#include "backend/cuda/kernels/send_rows.h"
#endif

namespace tilelace::cuda {

constexpr int kMostResults = plan::kMostWeights * schedule::kMaxSections;

/// Tokens come from this rank's slot, but a walk by shard takes own tokens from the input (`own`).
/// `out`: a matrix per weight and section, the sections of the first weight in front; its map drops
/// stores beyond the section's end. `tail`: maps of partial last slices.
struct AgGemmParams : GemmOperands {
  CUtensorMap own;
  MoreWeights weights;
  CUtensorMap out[kMostResults];
  CUtensorMap out_remainder[kMostResults];
  CUtensorMap tail[schedule::kMaxSections];
  schedule::GemmWorkOf<schedule::GatherOrder> work;
  CallParams call;
  bool rows_here;            ///< an earlier kernel waited for all rows (or was stopped)
  schedule::PushOrder push;  ///< what this kernel sends; empty: it sends nothing
  const std::byte* input;    ///< this rank's rows in the caller's tensor
  std::size_t staged;        ///< offset of the slot's rows, which are [m, k]
  std::int64_t row_bytes;
};
struct AgGemmGatedParams : AgGemmParams {
  UpWeight up;
};

#ifdef __CUDACC__

template <class B, class P, class C>
struct Gathering : PlainHooks<B> {
  using Params = P;
  using Columns = C;
  using Shared = typename B::Shared;
  using Place = typename B::Place;
  static constexpr int kLoadRegisters = B::Shape::kWaitingRegisters;
  static constexpr bool kSends = plan::can_push(B::Tile::blocks, B::Tile::width);
  static constexpr int kMultiplying = B::Shape::kThreads - 128;  ///< threads of a CTA

  static TILELACE_DEVICE void prefetch(const Params& p) {
    ptx::prefetch_map(p.out);
    if (Columns::kWidth % 64 != 0) ptx::prefetch_map(p.out_remainder);
    Columns::prefetch(p);
    ptx::prefetch_map(&p.own);
  }
  static TILELACE_DEVICE void init(Shared shared) { init_admission(shared); }

  /// In a walk by shard, swaps row and column of `cell` if tokens are tile columns (kAcross). Then
  /// counts tiles from the first one of their weight.
  static TILELACE_DEVICE CtaTile enter(const Params& p, const Place& place,
                                       schedule::GemmCell& cell) {
    if constexpr (B::kAcross)
      if (!p.work.order.whole) cell = {cell.col, cell.row, cell.section};
    const int weight = Columns::enter(p, B::Tile::swapped ? cell.row : cell.col);
    CtaTile at = PlainHooks<B>::tile_of(place, cell, place.row);
    at.weight = weight;
    return at;
  }

  struct Tokens : PlainHooks<B>::Tokens {
    const Params& p;
    Shared shared;
    SectionTokens<B, Params> sections;
    GatherWaits<Params> waits;
    TILELACE_DEVICE Tokens(const Params& params, Shared memory, const Place& place, Trace trace)
        : p(params), shared(memory), sections(params, place), waits(params, trace) {}

    TILELACE_DEVICE void begin() { waits.begin(); }
    template <class Loader>
    TILELACE_DEVICE void end(Loader& loader) {
      if (!loader.started()) loader.start();  // even without tiles, as other warps wait for start()
    }
    [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell cell, int first) const {
      return sections.expected_bytes(cell, first);
    }
    /// Waits for the section's rows from `first` on. If they never come, the tile loads whatever
    /// the slot holds, but neither its results nor those of later tiles are stored.
    TILELACE_DEVICE TailSource source(schedule::GemmCell cell, int first, int tile) {
      const schedule::GatherOrder& order = p.work.order;
      const int begin = order.begin(cell.section) + first;
      const bool here = waits.rows(cell.section, begin,
                                   min(begin + B::kTokenSlice, order.end(cell.section)), tile);
      if (!here && ptx::elect_one()) fail_from(shared, tile);
      __syncwarp();
      const bool own = !order.whole && cell.section == 0;
      const CUtensorMap* const map = sections.map(own ? &p.own : B::tokens(p), cell, first);
      if (!own) ptx::want_until(map, order.end(cell.section));
      return {map, own ? first : begin};
    }
  };

  struct Finish : PlainHooks<B>::Finish {
    const Params& p;
    Shared shared;
    TILELACE_DEVICE Finish(const Params& params, Shared memory) : p(params), shared(memory) {}
    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const CtaTile at = enter(p, math.place(), cell);
      if (!may_store(shared, math.tile())) return;
      const int number = at.weight * p.work.order.count + cell.section;
      math.store_tile(NumberedResult<Params>{p, number}, at.weight,
                      at.row * B::Shape::kRows + math.first_row(), at.col * Columns::kWidth);
    }
  };

  static TILELACE_DEVICE void before_products(const Params& p) {
    if constexpr (kSends) push_before_products(p, kMultiplying);
  }
  static TILELACE_DEVICE void spare_warp(const Params& p, Shared shared, const Place& /*place*/,
                                         int warp) {
    if (warp == 1) admit(p, shared, [] { ptx::sync_threads(kNumberBarrier, kNumberThreads); });
    if (warp >= 2) {
      if constexpr (kSends)
        push_by_spare_warps(p, kMultiplying);
      else
        // stays: the barrier expects these threads, too
        ptx::arrive_threads(kNumberBarrier, kNumberThreads);
    }
    if constexpr (kTraced)
      if (warp == 2 && blockIdx.x == 0) watch_rows(p, shared);
  }
};

template <class B>
struct AgGemm : Gathering<B, AgGemmParams, typename B::template SeveralWeights<AgGemmParams>> {};
template <class B>
struct GatedAgGemm
    : Gathering<B, AgGemmGatedParams, typename B::template GateAndUp<AgGemmGatedParams>> {};

#endif  // __CUDACC__

}  // namespace tilelace::cuda
