// SPDX-License-Identifier: Apache-2.0
// Hooks of ops that add peers' terms (their partials) to the tiles of this rank's rows.
#pragma once
#include "backend/cuda/kernels/peer_sums.h"
#include "backend/cuda/kernels/plain_hooks.h"
#include "backend/cuda/kernels/section_tokens.h"

namespace tilelace::cuda {

template <class B, class P>
struct SummingHooks : PlainHooks<B> {
  using Params = P;
  using Columns = typename B::template OneWeight<P>;
  using Shared = typename B::Shared;
  using Place = typename B::Place;
  static constexpr int kLoadRegisters = B::Shape::kWaitingRegisters;

  static TILELACE_DEVICE void init(Shared shared) { init_admission(shared); }
  static TILELACE_DEVICE int steps_behind(const Params& p, schedule::GemmSegment s) {
    return s.begin == 0 && p.work.order.own_tile(s.tile) ? p.term_steps : 0;
  }
  static TILELACE_DEVICE void spare_warp(const Params& p, Shared shared, const Place& /*place*/,
                                         int warp) {
    if (warp == 1) admit(p, shared);
  }

  struct Tokens : PlainHooks<B>::Tokens {
    const Params& p;
    Shared shared;
    Trace trace;
    SectionTokens<B, Params> tokens;
    TILELACE_DEVICE Tokens(const Params& params, Shared memory, const Place& place, Trace to)
        : p(params), shared(memory), trace(to), tokens(params, place) {}

    [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell cell, int first) const {
      return tokens.expected_bytes(cell, first);
    }
    [[nodiscard]] TILELACE_DEVICE auto source(schedule::GemmCell cell, int first,
                                              int /*tile*/) const {
      return tokens.source(cell, first);
    }
  };

  struct Finish : PlainHooks<B>::Finish {
    const Params& p;
    Shared shared;
    PeerSums<B, Params> sums;
    TILELACE_DEVICE Finish(const Params& params, Shared memory)
        : p(params), shared(memory), sums(params, memory) {}

    TILELACE_DEVICE void multiplied(std::uint32_t began, bool more) {
      sums.multiplied(began, more);
    }
    /// Adds the residual to an own tile. If admitted, stores the tile at (row, col) of own rows.
    template <class Math, class Results>
    TILELACE_DEVICE bool store_sum(Math& math, const Results& results, int row, int col) {
      B::add_residual(p, math, row, col);
      math.note(TraceKind::summed);
      if (!may_store(shared, math.tile())) return false;
      math.store_tile(results, 0, row, col);
      return true;
    }
  };
};

}  // namespace tilelace::cuda
