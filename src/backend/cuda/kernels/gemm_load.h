// SPDX-License-Identifier: Apache-2.0
// Role load of the GEMM: one warp fills the ring with bulk tensor copies. All its lanes go through
// the loops, so that they can wait side by side; one lane copies.
#pragma once
#include <type_traits>

#include "backend/cuda/kernels/gemm_gather.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_reduce.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

template <class Tile, class Params>
class GemmLoad {
  using Shape = GemmShape<Tile>;

 public:
  TILELACE_DEVICE GemmLoad(const Params& p, GemmShared<Tile> shared, Place<Tile> place)
      : p_(p), shared_(shared), place_(place), trace_(p, shared.trace()), waits_(p, trace_) {}

  /// Nobody leaves while a CTA of the cluster may still signal here: until every stage has been let
  /// go by all who read it. What they sent here has arrived by then, or it could not have been
  /// used.
  TILELACE_DEVICE void finish() {
    if constexpr (Params::kGathers)
      if (!ready_) start();  // no tile: others wait for this warp to know the call's number
    if constexpr (Params::kShares) {
      note(TraceKind::wait_tile);
      if (p_.direct) await_shared<Tile>(p_, admitted_number(shared_));
      __syncwarp();  // stays: the lanes go on together
      note(TraceKind::tiles_here);
    }
    if constexpr (Shape::kCluster > 1) {
      for (int i = 0; i < Tile::stages; ++i) {
        ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
        ring_.advance();
      }
    }
    note(TraceKind::exit);
  }

  TILELACE_DEVICE void load(schedule::GemmCell cell, schedule::GemmSegment s) {
    note(TraceKind::segment, s.tile);
    const int cta_row = enter_shard<Tile>(p_, place_, cell);
    // Where it lies; sums need the order's own cell, too.
    if constexpr (Params::kGathers && kTurns<Params>) cell = turned(p_, cell);
    const schedule::GemmCell at = Params::kReduces ? turned(p_, cell) : cell;
    const int first_row = (at.row * Tile::cluster_rows + cta_row) * Shape::kRows;
    const int first_col =
        (tile_col(p_, at) * Tile::cluster_cols + place_.col) * kOutWidth<Tile, Params>;
    const int row = first_row + place_.col * Shape::kRowSlice;
    int col = first_col;
    if constexpr (!Params::kGates) col += slice();
    const CUtensorMap* const weight = weight_of(cell);
    const int arriving = arriving_of(cell, Tile::swapped ? col : row);
    int early = 0;
    if (!ready_) {
      early = min(Tile::stages, s.steps());
      if (p_.weights_wait) start();
      load_early(weight, row, col, s.begin, early, arriving);
      if (!p_.weights_wait) start();
    }
    const Tokens tokens = tokens_of(cell, Tile::swapped ? col : row);
    for (int k = 0; k < s.steps(); ++k) {
      const int x = (s.begin + k) * kStep;
      if (k >= early) ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      if (ptx::elect_one()) {
        if (k >= early) {
          ptx::barrier_expect(shared_.full(ring_.stage), arriving);
          load_weight(weight, ring_.stage, x, row, col);
        }
        load_tokens(ring_.stage, x, tokens);
      }
      ring_.advance();
    }
    note(TraceKind::loaded, s.tile);
    if constexpr (Params::kReduces)
      if (s.begin == 0) load_terms(cell, s.tile, cta_row, first_row, first_col);
    ++segment_;
  }

 private:
  TILELACE_DEVICE void note(TraceKind kind, int argument = 0) const {
    if constexpr (kTraced)
      if (ptx::elect_one()) trace_.add(kind, kLoadLane, argument);
  }

  TILELACE_DEVICE void load_terms(schedule::GemmCell cell, int tile, int cta_row, int row,
                                  int col) {
    if constexpr (kPairs<Params>)
      if (p_.work.order.beside_own(cell.section)) return pass_terms();
    if (!p_.work.order.own(cell.section)) return;
    const TermLoad<Tile, Params> terms(p_, cell, cta_of<Tile, Params>(place_, cta_row));
    if constexpr (Tile::swapped)
      terms.prefetch_residual(col, row, Tile::width, Shape::kRows);
    else
      terms.prefetch_residual(own_row(p_, cell, row), col, Shape::kRows, Tile::width);
    note(TraceKind::wait_terms, tile);
    if (!terms.wait(admitted_number(shared_), trace_, tile) && ptx::elect_one())
      ptx::store_shared_least(shared_.failed(), segment_);
    __syncwarp();
    note(TraceKind::terms_here, tile);
    for (int i = 0; i < p_.term_steps; ++i) {
      ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      if (ptx::elect_one()) terms.load(i, shared_.rows(ring_.stage), shared_.full(ring_.stage));
      ring_.advance();
    }
  }

  /// The cluster's CTAs go through their rings in step.
  TILELACE_DEVICE void pass_terms() {
    for (int i = 0; i < p_.term_steps; ++i) {
      // stays: nothing is in these steps
      ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      if (ptx::elect_one()) ptx::barrier_expect(shared_.full(ring_.stage), 0);
      ring_.advance();
    }
  }

  struct Tokens {
    const CUtensorMap* map;  ///< null: none are there
    int first;               ///< token, in the map
  };
  TILELACE_DEVICE Tokens tokens_of(schedule::GemmCell cell, int first) {
    if constexpr (Params::kReduces) {
      const int begin = p_.work.order.begin(cell.section) + first;
      if constexpr (Params::kClips)
        return {clip(p_.few + cell.section, left_of(cell, first)), begin};
      return {all_tokens(), begin};
    } else if constexpr (!Params::kGathers && Params::kClips) {
      return {clip(&p_.few, left_of(cell, first)), first};
    } else if constexpr (!Params::kGathers) {
      return {Tile::swapped ? &p_.cols : &p_.rows, first};
    } else {
      const schedule::GatherOrder& order = p_.work.order;
      const int begin = order.begin(cell.section) + first;
      const int loaded = Tile::swapped ? Shape::kColSlice : Shape::kRowSlice;
      const bool here =
          waits_.rows(cell.section, begin, min(begin + loaded, order.end(cell.section)), segment_);
      if (!here && ptx::elect_one()) ptx::store_shared_least(shared_.failed(), segment_);
      __syncwarp();
      const bool own = !order.whole && cell.section == 0;
      if constexpr (Params::kClips) {
        const CUtensorMap* const few =
            clip(p_.few + (order.whole ? 0 : cell.section), left_of(cell, first));
        if (!own) ptx::want_until(few, order.end(cell.section));
        if (few != all_tokens()) return {few, own ? first : begin};
      }
      if (own) return {&p_.own, first};
      ptx::want_until(all_tokens(), order.end(cell.section));
      return {Tile::swapped ? &p_.cols : &p_.rows, begin};
    }
  }

  [[nodiscard]] TILELACE_DEVICE const CUtensorMap* all_tokens() const {
    return Tile::swapped ? &p_.cols : &p_.rows;
  }
  /// The tokens from this CTA's first one on to the last.
  [[nodiscard]] TILELACE_DEVICE int left_of(schedule::GemmCell cell, int first) const {
    if constexpr (Params::kGathers || Params::kReduces)
      return p_.work.order.end(cell.section) - p_.work.order.begin(cell.section) - first;
    else
      return p_.tokens - first;
  }
  /// The map for as many tokens as are loaded, where `left` are there.
  [[nodiscard]] TILELACE_DEVICE const CUtensorMap* clip(const CUtensorMap* few, int left) const {
    const int loaded = Shape::tokens().loaded(left);
    if (loaded == Shape::tokens().slice) return all_tokens();
    return loaded > 0 ? few : nullptr;
  }
  /// Bytes of a stage, of what all CTAs load for this one; `first`: of this CTA's slice of tokens.
  [[nodiscard]] TILELACE_DEVICE int arriving_of(schedule::GemmCell cell, int first) const {
    if constexpr (Params::kClips) {
      const int before = Shape::tokens().begin(Tile::swapped ? place_.row : place_.col);
      return Shape::kArriving - 128 * Shape::tokens().missing(left_of(cell, first) + before);
    } else {
      return Shape::kArriving;
    }
  }

  TILELACE_DEVICE void start() {
    ptx::wait_prerequisites();
    note(TraceKind::ready);
    if constexpr (Params::kGathers) waits_.begin();
    ready_ = true;
  }

  /// Weights fill the ring before rows of peers are waited for; those that belong to nobody before
  /// the kernel before this one is over, which may still write the rest.
  TILELACE_DEVICE void load_early(const CUtensorMap* weight, int row, int col, int begin, int steps,
                                  int arriving) {
    if (!ptx::elect_one()) return;
    for (int k = 0; k < steps; ++k) {
      ptx::barrier_expect(shared_.full(k), arriving);
      load_weight(weight, k, (begin + k) * kStep, row, col);
    }
  }

  TILELACE_DEVICE const CUtensorMap* weight_of(schedule::GemmCell cell) const {
    if constexpr (kMerges<Tile, Params>)
      if (p_.weights.count > 1 && cell.section > 0) return p_.weights.map + (cell.section - 1);
    return Tile::swapped ? &p_.rows : &p_.cols;
  }
  TILELACE_DEVICE void load_weight(const CUtensorMap* weight, int stage, int x, int row, int col) {
    if constexpr (Params::kGates)
      load_both(stage, x, col);
    else
      Tile::swapped ? load_rows(weight, stage, x, row) : load_cols(weight, stage, x, col);
  }
  TILELACE_DEVICE void load_tokens(int stage, int x, Tokens t) {
    if constexpr (Params::kClips)
      if (t.map == nullptr) return;
    Tile::swapped ? load_cols(t.map, stage, x, t.first) : load_rows(t.map, stage, x, t.first);
  }

  /// The CTAs of a cluster column share columns, those of a cluster row share rows.
  TILELACE_DEVICE void load_rows(const CUtensorMap* map, int stage, int x, int row) {
    const ptx::Shared dst = shared_.rows(stage) + place_.col * Shape::kRowSlice * 128;
    if constexpr (Tile::cluster_cols == 1) {
      ptx::tensor_load(dst, map, shared_.full(stage), x, row);
    } else {
      std::uint16_t mask = 0;
      for (int c = 0; c < Tile::cluster_cols; ++c)
        mask |= 1 << (place_.row + Tile::cluster_rows * c);
      ptx::tensor_load_multicast(dst, map, shared_.full(stage), x, row, mask);
    }
  }
  TILELACE_DEVICE void load_cols(const CUtensorMap* map, int stage, int x, int col) {
    const ptx::Shared dst = shared_.cols(stage) + slice() * 128;
    if constexpr (Tile::cluster_rows == 1) {
      ptx::tensor_load(dst, map, shared_.full(stage), x, col);
    } else {
      const int first = Tile::cluster_rows * place_.col;
      const auto mask = static_cast<std::uint16_t>(((1 << Tile::cluster_rows) - 1) << first);
      ptx::tensor_load_multicast(dst, map, shared_.full(stage), x, col, mask);
    }
  }
  /// Columns of gate and the same columns of up behind them; of two CTAs each loads one for both.
  TILELACE_DEVICE void load_both(int stage, int x, int col) {
    static_assert(!Tile::swapped && Tile::cluster_rows <= 2 && Tile::width % 16 == 0);
    if constexpr (Tile::cluster_rows == 2) {
      load_cols(place_.row == 0 ? &p_.cols : &p_.up, stage, x, col);
    } else {
      load_cols(&p_.cols, stage, x, col);
      ptx::tensor_load(shared_.cols(stage) + Tile::width / 2 * 128, &p_.up, shared_.full(stage), x,
                       col);
    }
  }
  /// First column that this CTA loads for its cluster.
  [[nodiscard]] TILELACE_DEVICE int slice() const {
    return min(place_.row * Shape::kColSlice, Tile::width - Shape::kColSlice);
  }

  struct NoWaits {
    TILELACE_DEVICE NoWaits(const Params& /*p*/, Trace /*trace*/) {}
  };

  const Params& p_;
  GemmShared<Tile> shared_;
  Place<Tile> place_;
  Trace trace_;
  std::conditional_t<Params::kGathers, GatherWaits, NoWaits> waits_;
  Ring<Tile::stages> ring_;
  int segment_ = 0;
  bool ready_ = false;
};

}  // namespace tilelace::cuda
