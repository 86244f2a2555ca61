// SPDX-License-Identifier: Apache-2.0
// gemm_rs: a tile of a peer's rows is sent as a partial, from registers directly to the peer. Tiles
// of this rank's rows come last. Peers' partials (terms) are added to them; the sums are stored.
#pragma once
#include "backend/cuda/kernels/partials.h"
#include "schedule/reduce_order.h"
#ifdef __CUDACC__
#include "backend/cuda/kernels/summing_hooks.h"
#endif

namespace tilelace::cuda {

/// A section is a shard. `tail` has a map for each section whose last slice of tokens is partial.
template <class Order>
struct GemmRsParamsOf : PartialParams {
  CUtensorMap out;  ///< map of this rank's rows
  CUtensorMap out_remainder;
  CUtensorMap tail[schedule::kMaxGpuRanks];
  schedule::GemmWorkOf<Order> work;
};
using GemmRsParams = GemmRsParamsOf<schedule::ReduceOrder>;
using GemmRsPairParams = GemmRsParamsOf<schedule::PairOrder>;

#ifdef __CUDACC__

template <class B, class P>
struct ReducingHooks : SummingHooks<B, P> {
  using Columns = typename SummingHooks<B, P>::Columns;
  static TILELACE_DEVICE void prefetch(const P& p) {
    ptx::prefetch_map(&p.out);
    if (Columns::kWidth % 64 != 0) ptx::prefetch_map(&p.out_remainder);
  }
};

template <class B>
struct GemmRs : ReducingHooks<B, GemmRsParams> {
  using P = GemmRsParams;
  using Tile = typename B::Tile;
  using Shape = typename B::Shape;

  /// If tokens are the tile's columns (kAcross), a row of the order is a column of tiles, so the
  /// tile lies at the transposed cell. `cell` itself is not changed, since it numbers the partials.
  static TILELACE_DEVICE CtaTile enter(const P& /*p*/, const typename B::Place& place,
                                       schedule::GemmCell& cell) {
    const schedule::GemmCell at =
        B::kAcross ? schedule::GemmCell{cell.col, cell.row, cell.section} : cell;
    return PlainHooks<B>::tile_of(place, at, place.row);
  }

  struct Tokens : SummingHooks<B, P>::Tokens {
    using SummingHooks<B, P>::Tokens::Tokens;
    template <class Loader>
    TILELACE_DEVICE void behind(Loader& loader, schedule::GemmCell cell, int tile,
                                const CtaTile& at, int row, int col) {
      if (!this->p.work.order.own(cell.section)) return;
      const ResidualTile residual = Tile::swapped
                                        ? ResidualTile{col, row, Tile::width, Shape::kRows}
                                        : ResidualTile{row, col, Shape::kRows, Tile::width};
      load_terms<B>(loader, this->p, this->shared, this->trace, cell, tile, at.cta, residual);
    }
  };

  struct Finish : SummingHooks<B, P>::Finish {
    using SummingHooks<B, P>::Finish::Finish;
    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const P& p = this->p;
      const CtaTile at = enter(p, math.place(), cell);
      if (!p.work.order.own(cell.section)) return this->sums.give(math, cell, at);
      this->sums.add(math);
      this->store_sum(math, OneResult{&p.out, &p.out_remainder},
                      at.row * Shape::kRows + math.first_row(),
                      at.col * ReducingHooks<B, P>::Columns::kWidth);
    }
  };
};

/// gemm_rs for shards of few rows. A cluster takes two shards. Each of its two CTAs computes a tile
/// of one shard, and both CTAs share the loads of the weight.
template <class B>
struct GemmRsPairs : ReducingHooks<B, GemmRsPairParams> {
  using P = GemmRsPairParams;
  using Tile = typename B::Tile;
  using Shape = typename B::Shape;
  static_assert(Tile::cluster_rows == 2 && Tile::cluster_cols == 1 && !Tile::swapped);

  /// Moves `cell` to this CTA's shard of the pair. Returns this CTA's tile in that shard.
  static TILELACE_DEVICE CtaTile enter(const P& p, const typename B::Place& place,
                                       schedule::GemmCell& cell) {
    const int cta_row = p.work.order.enter(cell, place.row);
    CtaTile at = PlainHooks<B>::tile_of(place, cell, cta_row);
    at.cta = cta_row;
    return at;
  }

  struct Tokens : SummingHooks<B, P>::Tokens {
    using SummingHooks<B, P>::Tokens::Tokens;
    template <class Loader>
    TILELACE_DEVICE void behind(Loader& loader, schedule::GemmCell cell, int tile,
                                const CtaTile& at, int row, int col) {
      if (this->p.work.order.beside_own(cell.section)) return skip_terms(loader, this->p);
      if (!this->p.work.order.own(cell.section)) return;
      load_terms<B>(loader, this->p, this->shared, this->trace, cell, tile, at.cta,
                    {row, col, Shape::kRows, Tile::width});
    }
  };

  struct Finish : SummingHooks<B, P>::Finish {
    using SummingHooks<B, P>::Finish::Finish;
    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const P& p = this->p;
      const CtaTile at = enter(p, math.place(), cell);
      if (!p.work.order.own(cell.section)) {
        this->sums.give(math, cell, at);
        if (p.work.order.beside_own(cell.section)) this->sums.skip(math);
        return;
      }
      this->sums.add(math);
      const int row = at.row * Shape::kRows + math.first_row();
      if (row >= p.own_rows) return;  // if this rank has no rows, `out` is no valid map
      this->store_sum(math, OneResult{&p.out, &p.out_remainder}, row,
                      at.col * ReducingHooks<B, P>::Columns::kWidth);
    }
  };
};

#endif  // __CUDACC__

}  // namespace tilelace::cuda
