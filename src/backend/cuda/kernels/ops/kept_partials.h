// SPDX-License-Identifier: Apache-2.0
// gemm_ar whose ranks keep their partials. To give a tile, the GEMM stores it, rounded, in this
// rank's slot and tells all ranks. Warps that neither load nor multiply sum a tile once all ranks
// have given it (schedule/tile_sums.h). The GEMM waits for peers only at the admission, before it
// first tells ranks of a tile. Each group that multiplies sums its own last tile.
#pragma once
#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/sums_place.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"
#ifdef __CUDACC__
#include "backend/cuda/kernels/plain_hooks.h"
#include "backend/cuda/kernels/tile_sums.h"
#endif

namespace tilelace::cuda {

/// Bias and activation of GemmOperands are not set, since both are applied after the sum.
struct KeptPartialsParams : GemmOperands {
  CUtensorMap out;  ///< map of this rank's partials in its slot
  CUtensorMap out_remainder;
  schedule::GemmWork work;
  CallParams call;
  SumsPlace slots;
  std::size_t partials;  ///< offset of the slot's partials, [m, n]
  std::size_t counts;    ///< offset of the slot's counts (schedule/tile_sums.h)
  comm::Flag* uses;      ///< in this rank's memory: how often each count was used
  SumsPlace results;
  std::size_t results_at;  ///< offset of the sums in `results`; equal to `partials` unless direct
  std::byte* delivered;    ///< [m, n]: gets one-shot sums or copies of two-shot sums; null: direct
  const void* sum_bias;    ///< [n] or null
  const void* residual;    ///< [m, n] or null
  Activation sum_activation;
  bool one_shot;  ///< each rank sums all pieces for itself; false: each sums a share for all ranks
  int m;
};

#ifdef __CUDACC__

/// `kBy`: either the NVLink switch sums (multicast memory), or warps load from peers and sum.
template <class B, SumsBy kBy>
struct KeptPartials : PlainHooks<B> {
  using Params = KeptPartialsParams;
  using Columns = typename B::template OneWeight<Params>;
  using Shared = typename B::Shared;
  using Place = typename B::Place;
  static constexpr int kLoadRegisters = 72;  // per thread; the warps that sum need this number
  static_assert(B::Shape::kMovesRegisters && B::Tile::pingpong && !B::Tile::swapped);

  static TILELACE_DEVICE void prefetch(const Params& p) {
    ptx::prefetch_map(&p.out);
    if (Columns::kWidth % 64 != 0) ptx::prefetch_map(&p.out_remainder);
  }
  static TILELACE_DEVICE void init(Shared shared) { init_admission(shared); }

  struct Tokens : PlainHooks<B>::Tokens {
    const Params& p;
    TILELACE_DEVICE Tokens(const Params& params, Shared /*shared*/, const Place& /*place*/,
                           Trace /*trace*/)
        : p(params) {}
    [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell /*cell*/,
                                                     int /*first*/) const {
      return B::Shape::kExpectedBytes;
    }
    [[nodiscard]] TILELACE_DEVICE TokenSource source(schedule::GemmCell /*cell*/, int first,
                                                     int /*tile*/) const {
      return {B::tokens(p), first};
    }
  };

  struct Finish : PlainHooks<B>::Finish {
    const Params& p;
    Shared shared;
    int last = -1;  ///< the last tile of this group; -1: none
    TILELACE_DEVICE Finish(const Params& params, Shared memory) : p(params), shared(memory) {}

    template <class Work, class Math>
    TILELACE_DEVICE void walk(const Work& work, int worker, int lane, int lanes, Math& math) {
      GiveTiles<B, Params, kBy, Math> verbs(p, shared, math);
      last = schedule::run_sums_math(work, worker, lane, lanes, verbs);
    }
    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const CtaTile at = KeptPartials::enter(p, math.place(), cell);
      math.store_tile(OneResult{&p.out, &p.out_remainder}, at.weight,
                      at.row * B::Shape::kRows + math.first_row(), at.col * Columns::kWidth);
    }
    TILELACE_DEVICE void end() {
      PieceSums<B, Params, kBy, SumGroup<B::kGroupBarrier>, 8> sums(p, shared);
      schedule::sum_last(p.work, last, sums);
    }
  };

  static TILELACE_DEVICE void spare_warp(const Params& p, Shared shared, const Place& place,
                                         int warp) {
    if (warp == 0) return;
    ptx::wait_prerequisites();  // stays: admit() waits, too, and all else comes after it
    if (warp == 1) admit(p, shared);
    PieceSums<B, Params, kBy, SumWarps, 4> sums(p, shared);
    schedule::run_sums_reduce(p.work, place.worker, B::Shape::kTurns, sums);
  }
};

template <class B>
struct KeptBySwitch : KeptPartials<B, SumsBy::by_switch> {};
template <class B>
struct KeptByPeers : KeptPartials<B, SumsBy::by_peers> {};

#endif  // __CUDACC__

}  // namespace tilelace::cuda
