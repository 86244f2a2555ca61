// SPDX-License-Identifier: Apache-2.0
// A GEMM without communication: the policy (docs/kernels.md) with every hook in its simplest form.
#pragma once
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"
#ifdef __CUDACC__
#include "backend/cuda/kernels/plain_hooks.h"
#endif

namespace tilelace::cuda {

struct GemmParams : GemmOperands {
  CUtensorMap out;            ///< map for stores of 64 columns x 64 rows
  CUtensorMap out_remainder;  ///< map for a tile's columns beyond a multiple of 64
  schedule::GemmWork work;
  CUtensorMap tail;  ///< map of the last slice of tokens, if it is partial
  int tokens;        ///< number of tokens
};
struct GemmGatedParams : GemmParams {
  UpWeight up;
};

#ifdef __CUDACC__

template <class B, class P, class C>
struct Multiplying : PlainHooks<B> {
  using Params = P;
  using Columns = C;
  using Shared = typename B::Shared;
  using Place = typename B::Place;

  static TILELACE_DEVICE void prefetch(const Params& p) {
    ptx::prefetch_map(&p.out);
    if (Columns::kWidth % 64 != 0) ptx::prefetch_map(&p.out_remainder);
    Columns::prefetch(p);
  }

  struct Tokens : PlainHooks<B>::Tokens {
    const Params& p;
    Place place;
    TILELACE_DEVICE Tokens(const Params& params, Shared /*shared*/, const Place& at,
                           Trace /*trace*/)
        : p(params), place(at) {}
    [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell /*cell*/, int first) const {
      return B::Tail::expected_bytes(place, p.tokens - first);
    }
    [[nodiscard]] TILELACE_DEVICE TailSource source(schedule::GemmCell /*cell*/, int first,
                                                    int /*tile*/) const {
      return {B::Tail::map(B::tokens(p), &p.tail, p.tokens - first), first};
    }
  };

  struct Finish : PlainHooks<B>::Finish {
    const Params& p;
    TILELACE_DEVICE Finish(const Params& params, Shared /*shared*/) : p(params) {}
    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const CtaTile at = Multiplying::enter(p, math.place(), cell);
      math.store_tile(OneResult{&p.out, &p.out_remainder}, at.weight,
                      at.row * B::Shape::kRows + math.first_row(), at.col * Columns::kWidth);
    }
  };
};

template <class B>
struct Gemm : Multiplying<B, GemmParams, typename B::template OneWeight<GemmParams>> {};
template <class B>
struct GatedGemm
    : Multiplying<B, GemmGatedParams, typename B::template GateAndUp<GemmGatedParams>> {};

#endif  // __CUDACC__

}  // namespace tilelace::cuda
