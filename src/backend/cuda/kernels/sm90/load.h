// SPDX-License-Identifier: Apache-2.0
// The role load of the GEMM: one warp fills the ring with bulk tensor copies. All lanes run the
// loops, so that the lanes can wait in parallel; one lane copies. `Op::Tokens` says where tokens
// come from, and waits for them.
#pragma once
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/ring.h"
#include "schedule/gemm.h"

namespace tilelace::cuda {

template <class Op>
class GemmLoad {
  using Tile = typename Op::Body::Tile;
  using Shape = GemmShape<Tile>;
  using Params = typename Op::Params;
  using Columns = typename Op::Columns;

 public:
  TILELACE_DEVICE GemmLoad(const Params& p, GemmShared<Tile> shared, ClusterPlace<Tile> place)
      : p_(p),
        shared_(shared),
        place_(place),
        trace_(p, shared.trace()),
        tokens_(p, shared, place_, trace_) {}

  /// Waits until all readers have released every stage, since a CTA must not exit while another CTA
  /// of the cluster may still signal its barriers. By then all loads into its shared memory have
  /// arrived, since readers have used them.
  TILELACE_DEVICE void finish() {
    tokens_.end(*this);
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
    const CtaTile at = Op::enter(p_, place_, cell);
    const int first_row = at.row * Shape::kRows;
    const int first_col = at.col * Columns::kWidth;
    const int row = first_row + place_.col * Shape::kRowSlice;
    const int col = Columns::first_loaded(first_col, slice());
    const CUtensorMap* const weight = Columns::map(p_, at.weight);
    const int expected = tokens_.expected_bytes(cell, Tile::swapped ? col : row);
    int early = 0;
    if (!ready_) {
      early = min(Tile::stages, s.steps());
      if (p_.weights_wait) start();
      load_early(weight, row, col, s.begin, early, expected);
      if (!p_.weights_wait) start();
    }
    const auto tokens = tokens_.source(cell, Tile::swapped ? col : row, s.tile);
    for (int k = 0; k < s.steps(); ++k) {
      const int x = (s.begin + k) * kStep;
      if (k >= early) ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
      if (ptx::elect_one()) {
        if (k >= early) {
          ptx::barrier_expect(shared_.full(ring_.stage), expected);
          Columns::load(*this, p_, weight, ring_.stage, x, row, col);
        }
        load_tokens(ring_.stage, x, tokens);
      }
      ring_.advance();
    }
    note(TraceKind::loaded, s.tile);
    if (s.begin == 0) tokens_.behind(*this, cell, s.tile, at, first_row, first_col);
  }

  // The functions below are for the pieces of an op's policy: Op::Tokens, Op::Columns.

  /// Waits for the previous kernel to end. Called once.
  TILELACE_DEVICE void start() {
    ptx::wait_prerequisites();
    note(TraceKind::ready);
    tokens_.begin();
    ready_ = true;
  }
  [[nodiscard]] TILELACE_DEVICE bool started() const { return ready_; }

  /// Waits until the next stage of the ring is free. Then one lane calls fill(rows, full), which
  /// fills the stage and announces how many bytes to expect.
  template <class Fill>
  TILELACE_DEVICE void fill_step(const Fill& fill) {
    ptx::barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
    if (ptx::elect_one()) fill(shared_.rows(ring_.stage), shared_.full(ring_.stage));
    ring_.advance();
  }

  TILELACE_DEVICE void note(TraceKind kind, int argument = 0) const {
    if constexpr (kTraced)
      if (ptx::elect_one()) trace_.add(kind, kLoadLane, argument);
  }

  /// CTAs in a column of the cluster share the column operand; CTAs in a row share the row operand.
  TILELACE_DEVICE void load_rows(const CUtensorMap* map, int stage, int x, int row, int at = 0) {
    const ptx::Shared dst = shared_.rows(stage) + (place_.col * Shape::kRowSlice + at) * 128;
    if constexpr (Tile::cluster_cols == 1) {
      ptx::tensor_load(dst, map, shared_.full(stage), x, row);
    } else {
      std::uint16_t mask = 0;
      for (int c = 0; c < Tile::cluster_cols; ++c)
        mask |= 1 << (place_.row + Tile::cluster_rows * c);
      ptx::tensor_load_multicast(dst, map, shared_.full(stage), x, row, mask);
    }
  }
  /// Loads a block of gate's rows, then one of up's, for each group whose rows this CTA loads.
  TILELACE_DEVICE void load_both_rows(const CUtensorMap* gate, const CUtensorMap* up, int stage,
                                      int x, int row) {
    static_assert(Tile::swapped && Shape::kRowSlice % 128 == 0);
#pragma unroll 1  // unrolled it takes registers that the waits need
    for (int at = 0; at < Shape::kRowSlice; at += 128) {
      load_rows(gate, stage, x, row + at / 2, at);
      load_rows(up, stage, x, row + at / 2, at + 64);
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
  /// Loads gate's columns, then up's. In a pair, one CTA loads gate for both, the other loads up.
  TILELACE_DEVICE void load_both_cols(const CUtensorMap* gate, const CUtensorMap* up, int stage,
                                      int x, int col) {
    static_assert(!Tile::swapped && Tile::cluster_rows <= 2 && Tile::width % 16 == 0);
    if constexpr (Tile::cluster_rows == 2) {
      load_cols(place_.row == 0 ? gate : up, stage, x, col);
    } else {
      load_cols(gate, stage, x, col);
      ptx::tensor_load(shared_.cols(stage) + Tile::width / 2 * 128, up, shared_.full(stage), x,
                       col);
    }
  }

 private:
  /// Loads weights into the ring before any wait for rows of peers, and even before the previous
  /// kernel ends if no earlier kernel writes the weights.
  TILELACE_DEVICE void load_early(const CUtensorMap* weight, int row, int col, int begin, int steps,
                                  int expected) {
    if (!ptx::elect_one()) return;
    for (int k = 0; k < steps; ++k) {
      ptx::barrier_expect(shared_.full(k), expected);
      Columns::load(*this, p_, weight, k, (begin + k) * kStep, row, col);
    }
  }
  template <class Source>
  TILELACE_DEVICE void load_tokens(int stage, int x, const Source& t) {
    if (!t.there()) return;
    Tile::swapped ? load_cols(t.map, stage, x, t.first) : load_rows(t.map, stage, x, t.first);
  }
  /// The first of the tile's columns that this CTA loads for its cluster.
  [[nodiscard]] TILELACE_DEVICE int slice() const {
    return min(place_.row * Shape::kColSlice, Tile::width - Shape::kColSlice);
  }

  const Params& p_;
  GemmShared<Tile> shared_;
  ClusterPlace<Tile> place_;
  Trace trace_;
  typename Op::Tokens tokens_;
  Ring<Tile::stages> ring_;
  bool ready_ = false;
};

}  // namespace tilelace::cuda
