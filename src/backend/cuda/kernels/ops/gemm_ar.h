// SPDX-License-Identifier: Apache-2.0
// gemm_ar: like gemm_rs, but a tile's owner stores the sum at all ranks and tells every peer. If
// sums go to slots first, the math groups finally copy peers' tiles from the slot to the caller.
#pragma once
#include "backend/cuda/device/shared_results.h"
#include "backend/cuda/kernels/partials.h"
#include "schedule/share_order.h"
#ifdef __CUDACC__
#include "backend/cuda/kernels/shared_tiles.h"
#include "backend/cuda/kernels/summing_hooks.h"
#endif

namespace tilelace::cuda {

struct GemmArParams : PartialParams {
  CUtensorMap out[schedule::kMaxGpuRanks];  ///< [i]: map of own rows at rank (rank + i) % ranks
  CUtensorMap out_remainder[schedule::kMaxGpuRanks];
  CUtensorMap tail[1];  ///< only if ranks own columns: map of a partial last slice of tokens
  schedule::GemmWorkOf<schedule::ShareOrder> work;
  SharedResults shared;      ///< tiles that peers finish; flags have the same offsets on all ranks
  std::uint32_t share_pace;  ///< pause between stores of chunks, in 1/16384 of a tile's MMA time
  std::uint32_t delay;       ///< cycles by which partials of the second half of columns are delayed
  bool direct;  ///< ranks store into the callers' tensors; false: ranks store into slots first
};

#ifdef __CUDACC__

template <class B>
struct GemmAr : SummingHooks<B, GemmArParams> {
  using P = GemmArParams;
  using Hooks = SummingHooks<B, P>;
  using Columns = typename Hooks::Columns;
  using Tile = typename B::Tile;
  using Shape = typename B::Shape;

  static TILELACE_DEVICE void prefetch(const P& p) {
    ptx::prefetch_map(p.out);
    if (Columns::kWidth % 64 != 0) ptx::prefetch_map(p.out_remainder);
  }
  /// This CTA's tile. If ranks own columns, a section's cells count from its owner's first column.
  static TILELACE_DEVICE CtaTile enter(const P& p, const typename B::Place& place,
                                       schedule::GemmCell& cell) {
    const schedule::GemmCell at{cell.row, cell.col + p.work.order.first_col(cell.section),
                                cell.section};
    return PlainHooks<B>::tile_of(place, at, place.row);
  }
  /// Converts a row within the cell's section to a row among all rows of this rank.
  static TILELACE_DEVICE int own_row(const P& p, schedule::GemmCell cell, int row) {
    return row + p.work.order.begin(cell.section) - p.work.order.own_begin;
  }

  struct Tokens : Hooks::Tokens {
    using Hooks::Tokens::Tokens;
    template <class Loader>
    TILELACE_DEVICE void behind(Loader& loader, schedule::GemmCell cell, int tile,
                                const CtaTile& at, int row, int col) {
      if (!this->p.work.order.own(cell.section)) return;
      load_terms<B>(loader, this->p, this->shared, this->trace, cell, tile, at.cta,
                    {own_row(this->p, cell, row), col, Shape::kRows, Tile::width});
    }
    template <class Loader>
    TILELACE_DEVICE void end(Loader& loader) {
      loader.note(TraceKind::wait_tile);
      if (this->p.direct) await_shared(this->p, admitted_number(this->shared));
      __syncwarp();  // stays: no data depends on it; the lanes go on together
      loader.note(TraceKind::tiles_here);
    }
  };

  /// Stores a tile at all ranks, with pauses between the tile's chunks.
  struct ResultsOfAll {
    const P& p;
    const PeerSums<B, P>& sums;
    TILELACE_DEVICE void before_chunk(std::uint32_t began, int chunk) const {
      ptx::sleep_until(began, chunk * sums.of_turn(p.share_pace));
    }
    template <class Store>
    TILELACE_DEVICE void each(bool whole, const Store& store) const {
      const CUtensorMap* map = whole ? p.out : p.out_remainder;
      for (int copies = p.call.ranks; copies > 0; --copies, ++map) store(map);
    }
  };

  struct Finish : Hooks::Finish {
    using Hooks::Finish::Finish;
    int pending = -1;  ///< flag number of a stored tile that peers were not told of yet; -1: none

    template <class Math>
    TILELACE_DEVICE void tile(Math& math, schedule::GemmCell cell) {
      const P& p = this->p;
      signal_shared(p, this->shared, math, pending);
      const CtaTile at = enter(p, math.place(), cell);
      if (!p.work.order.own(cell.section)) {
        if (2 * cell.col >= p.work.order.cols) ptx::sleep_until(ptx::cycles(), p.delay);
        return this->sums.give(math, cell, at);
      }
      this->sums.add(math);
      const int row = own_row(p, cell, at.row * Shape::kRows + math.first_row());
      const int col = at.col * Columns::kWidth;
      if (this->store_sum(math, ResultsOfAll{p, this->sums}, row, col))
        pending = PartialPlace<B, P>(p, cell, at.cta).flag_number(p.call.rank, math.part());
    }
    template <class Math>
    TILELACE_DEVICE void last_tile(Math& math) {
      signal_shared(this->p, this->shared, math, pending);
    }
    TILELACE_DEVICE void end() {
      if (!this->p.direct) collect_shared<B>(this->p, this->shared);
    }
  };
};

#endif  // __CUDACC__

}  // namespace tilelace::cuda
