// SPDX-License-Identifier: Apache-2.0
// The role math of the GEMM: a warpgroup multiplies the operands in the ring. `Op::Finish` then
// handles the accumulators, with the functions of GemmMath.
#pragma once
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/ring.h"
#include "backend/cuda/kernels/sm90/split.h"
#include "backend/cuda/kernels/sm90/stage.h"
#include "schedule/gemm.h"
#include "wgmma_shapes.h"

namespace tilelace::cuda {

template <class Op>
class GemmMath {
  using Body = typename Op::Body;
  using Tile = typename Body::Tile;
  using Element = typename Body::Element;
  using Shape = GemmShape<Tile>;
  using Params = typename Op::Params;
  static constexpr int kOut = Op::Columns::kWidth;
  static constexpr int kChunks = (kOut + 63) / 64;
  static constexpr int kRest = kOut % 64;
  static constexpr int kBlocks = Tile::blocks / Op::Columns::kRowBlocks;  ///< of the result

 public:
  TILELACE_DEVICE GemmMath(const Params& p, GemmShared<Tile> shared, ClusterPlace<Tile> place,
                           int group)
      : p_(p),
        shared_(shared),
        place_(place),
        trace_(p, shared.trace()),
        group_(Tile::groups == 1 ? 0 : group),
        thread_(static_cast<int>(threadIdx.x) & 127),
        block_row_(Tile::pingpong ? 0 : group * Tile::blocks),
        finish_(p, shared) {
    if constexpr (!kLine)
      if (thread_ < Shape::kCluster &&
          (thread_ % Tile::cluster_rows == place.row || thread_ / Tile::cluster_rows == place.col))
        releases_ = thread_;
  }

  TILELACE_DEVICE void skip(schedule::GemmSegment s) {
    ring_.skip(s.steps() + Op::steps_behind(p_, s));
  }

  TILELACE_DEVICE void multiply(schedule::GemmSegment s) {
    tile_ = s.tile;
    // Ping-pong groups take turns, as a wait for a parity over a ring round ahead ends too early.
    // stays: no test notices its loss, since turns order no data; they only keep parities apart
    if (Tile::pingpong && !first_turn_) ptx::sync_threads(kTurnBarrier + group_, 256);
    first_turn_ = false;
    note(TraceKind::turn, s.tile);
    const std::uint32_t began = ptx::cycles();
    bool here = await_first(s.tile);
#pragma unroll 1  // an unrolled loop takes a third of the compile time and is not faster
    for (int left = s.steps(); left > 0; --left) {
      if (!here) await_stage();
      const bool first = left == s.steps();
      Ring<Tile::stages> next = ring_;
      next.advance();
      multiply_stage(ring_.stage, !first, [&] {
        if (!first) release(ring_.before());
        here = ptx::barrier_test(shared_.full(next.stage), next.parity);
      });
      ring_ = next;
    }
    const int behind = Op::steps_behind(p_, s);
    if (Tile::pingpong && fits_ring(behind)) {
      // Without this wait the other group could take an empty stage for a filled one.
      await_steps(behind);
      hand_over();  // stays: turns order no data, they keep parities apart
    }
    // Whether another tile follows, whose loads a burst of stores would delay.
    const bool more = Tile::pingpong && next_tile(s) < p_.work.order.tiles();
    finish_.multiplied(began, more);
    ptx::wgmma_wait<0>();
    pin_accumulators();
    release(ring_.before());
    if constexpr (kTraced)
      if (thread_ == 0) trace_.add(TraceKind::multiplied, group_, trace_.take_starved(group_));
  }

  TILELACE_DEVICE void give_partial(int round) {
    leave_part<Tile>(parts(round).part(place_.worker), acc_);
    sync_group();
    if (thread_ == 0) parts(round).signal();
    note(TraceKind::given);
  }

  TILELACE_DEVICE void add_partial(int worker, int round) {
    if (thread_ == 0) parts(round).wait(worker);
    sync_group();
    add_part<Tile>(acc_, parts(round).part(worker));
    note(TraceKind::summed);
  }

  TILELACE_DEVICE void store(schedule::GemmCell cell) { finish_.tile(*this, cell); }

  /// Computes all tiles of this group.
  TILELACE_DEVICE void run() {
    // A constant 1 makes the compiler lose that all threads are at the same place of the ring: then
    // a step takes a third more instructions.
    int turns = Shape::kTurns;
    if constexpr (!Tile::pingpong) asm("" : "+r"(turns));
    finish_.walk(p_.work, place_.worker, Tile::pingpong ? group_ : 0, turns, *this);
    finish();
    finish_.end();
  }

  // The functions below are for the pieces of an op's policy, such as Op::Finish.

  [[nodiscard]] TILELACE_DEVICE auto& accumulators() { return acc_; }
  [[nodiscard]] TILELACE_DEVICE const ClusterPlace<Tile>& place() const { return place_; }
  [[nodiscard]] TILELACE_DEVICE const Trace& trace() const { return trace_; }
  [[nodiscard]] TILELACE_DEVICE int group() const { return group_; }
  [[nodiscard]] TILELACE_DEVICE int thread() const { return thread_; }
  /// This warp's number in the group, recomputed since a kept value would take a register.
  [[nodiscard]] TILELACE_DEVICE static int warp() {
    return __shfl_sync(~0U, (ptx::thread_again() & 127) / 32, 0);
  }
  [[nodiscard]] TILELACE_DEVICE static int lane() { return ptx::thread_again() & 31; }
  /// Number of the tile that this group multiplied last. Numbers increase from tile to tile.
  [[nodiscard]] TILELACE_DEVICE int tile() const { return tile_; }
  /// This group's part of the CTA's tile; 0 if the group has a tile to itself.
  [[nodiscard]] TILELACE_DEVICE int part() const { return Tile::pingpong ? 0 : group_; }
  [[nodiscard]] TILELACE_DEVICE int first_row() const { return 64 * block_row_; }
  TILELACE_DEVICE void note(TraceKind kind, int argument = 0) const {
    if (thread_ == 0) trace_.add(kind, group_, argument);
  }

  /// Named barrier of the group's 128 threads. Recomputed on each call, since a kept value would
  /// take a register in the main loop.
  [[nodiscard]] TILELACE_DEVICE static int barrier() {
    return kGroupBarrier - 1 + static_cast<int>(threadIdx.x / 128);
  }

  /// Waits until the next stage of the ring is filled, and returns its address.
  [[nodiscard]] TILELACE_DEVICE ptx::Shared await_step() const {
    ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);
    return shared_.rows(ring_.stage);
  }
  /// Releases the stage that await_step() returned, once the whole group has read it.
  TILELACE_DEVICE void release_step() {
    sync_group();
    release(ring_.stage);
    ring_.advance();
  }
  /// Called after a tile's extra ring steps. Lets the other group multiply, if it may not yet.
  TILELACE_DEVICE void end_steps_behind(int steps) {
    // stays: turns order no data, they keep parities apart
    if (Tile::pingpong && !fits_ring(steps)) hand_over();
  }

  /// Stages the accumulators' results in shared memory, then stores them from (row, col) on.
  template <class Results>
  TILELACE_DEVICE void store_tile(const Results& results, int weight, int row, int col) {
    if constexpr (kTraced)
      if (tile_ < p_.work.split_tiles + p_.work.workers * Shape::kTurns) note(TraceKind::allowed);
    const std::uint32_t began = ptx::cycles();
    const int warp_number = warp();
    const int lane_number = lane();
    const typename Op::Columns columns(p_, weight, warp_number, lane_number);
    row /= Op::Columns::kRowBlocks;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        results.before_chunk(began, i * kChunks + c);
        const ptx::Shared chunk = staging(i * kChunks + c);
        if (thread_ == 0) ptx::store_wait_read<Tile::staging - 1>();
        sync_group();
        stage(columns, chunk, acc_[i] + 32 * c, c, row + 64 * i, col + 64 * c, warp_number,
              lane_number);
        ptx::fence_shared_to_copy();
        sync_group();
        if (thread_ == 0) {
          results.each(c < kOut / 64, [&](const CUtensorMap* map) {
            const int x = row + 64 * i, y = col + 64 * c;
            Tile::swapped ? ptx::tensor_store(map, chunk, x, y)
                          : ptx::tensor_store(map, chunk, y, x);
          });
          ptx::store_commit();
        }
        if (!kWholeRounds) chunk_ = chunk_ + 1 == Tile::staging ? 0 : chunk_ + 1;
      }
    note(TraceKind::stored);
  }

 private:
  /// Waits until all stores have read their staging chunks. Counts the launch if tiles were shared.
  TILELACE_DEVICE void finish() {
    finish_.last_tile(*this);
    if (thread_ != 0) return;
    ptx::store_wait_read<0>();
    note(TraceKind::exit);
    if (p_.work.split_tiles > 0) parts(0).count();
  }

  static TILELACE_DEVICE bool fits_ring(int steps) { return steps_fit_ring(steps, Tile::stages); }

  /// Only for traces: times the wait for a tile's first operands. Returns whether it waited.
  TILELACE_DEVICE bool await_first(int tile) const {
    if constexpr (kTraced) {
      ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);  // stays: only for traces
      note(TraceKind::first, tile);
    }
    return kTraced;
  }
  TILELACE_DEVICE void await_stage() const {
    [[maybe_unused]] std::uint32_t began = 0;
    if constexpr (kTraced) began = ptx::cycles();
    ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);
    if constexpr (kTraced) trace_.starved(group_, thread_, ptx::cycles() - began);
  }

  [[nodiscard]] TILELACE_DEVICE int next_tile(schedule::GemmSegment s) const {
    if constexpr (decltype(p_.work)::kInRounds)
      if (s.tile < p_.work.split_tiles) return s.tile + p_.work.round_tiles;
    return s.tile + p_.work.workers;
  }

  // stays: turns order no data, they keep parities apart
  TILELACE_DEVICE void hand_over() { ptx::arrive_threads(kTurnBarrier + (group_ ^ 1), 256); }

  TILELACE_DEVICE void await_steps(int steps) const {
    Ring<Tile::stages> ahead = ring_;
    for (int i = 0; i < steps; ++i) {
      // stays: the reader of these steps waits for them again
      ptx::barrier_wait(shared_.full(ahead.stage), ahead.parity);
      ahead.advance();
    }
  }

  /// Multiplies a stage. Calls between() once the previous stage's MMAs have ended. Half of this
  /// stage's MMAs, or all in small stages, are issued before, so that the tensor cores never idle.
  template <class Between>
  TILELACE_DEVICE void multiply_stage(int stage, bool keep, Between between) {
    constexpr int kSteps = kStep / 16;
    constexpr int kProducts = Tile::blocks * kSteps;
    constexpr int kRowsAtOnce = Tile::blocks * (Tile::pingpong ? 1 : Tile::groups);
    constexpr bool kHalf = kRowsAtOnce * Tile::width >= 160 && Tile::blocks * Tile::width >= 96;
    constexpr int kBetween = kHalf ? kProducts / 2 : kProducts;
    const std::uint64_t rows = ptx::operand(shared_.rows(stage) + block_row_ * kChunkBytes);
    const std::uint64_t cols = ptx::operand(shared_.cols(stage));
    pin_accumulators();
    ptx::wgmma_fence();
#pragma unroll
    for (int at = 0; at < kProducts; ++at) {
      const int i = at / kSteps;
      const int kk = at % kSteps;
      Wgmma<Element, Tile::width>::multiply(acc_[i], rows + (kChunkBytes / 16) * i + 2 * kk,
                                            cols + 2 * kk, keep || kk != 0);
      if (at + 1 != kBetween) continue;
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      between();
    }
    if (kHalf) ptx::wgmma_commit();
  }

  /// Keeps the compiler from moving accumulators while MMAs are in flight.
  TILELACE_DEVICE void pin_accumulators() {
#pragma unroll
    for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
      for (int j = 0; j < Shape::kAccumulators; ++j) ptx::pin(acc_[i][j]);
  }

  /// released_cta(): a CTA that loads for this CTA and that this thread tells of free stages; -1:
  /// none. Unless kLine, releases_ keeps the number, since computing it would split the MMAs.
  static constexpr bool kLine = Tile::cluster_rows == 1 || Tile::cluster_cols == 1;
  [[nodiscard]] TILELACE_DEVICE int released_cta() const {
    if constexpr (kLine)
      return thread_ < Shape::kCluster ? thread_ : -1;
    else
      return releases_;
  }
  TILELACE_DEVICE void release(int stage) {
    if (released_cta() < 0) return;
    if constexpr (Shape::kCluster > 1)
      ptx::barrier_arrive_at(shared_.empty(stage), released_cta());
    else
      ptx::barrier_arrive(shared_.empty(stage));
  }

  TILELACE_DEVICE static void sync_group() { ptx::sync_threads(barrier(), 128); }

  [[nodiscard]] TILELACE_DEVICE SplitParts<Tile> parts(int round) const {
    return {p_.scratch, place_, group_, round, thread_};
  }

  /// Whether each tile uses all staging chunks equally often. If so, `chunk_` is not needed.
  static constexpr bool kWholeRounds = kBlocks * kChunks % Tile::staging == 0;
  [[nodiscard]] TILELACE_DEVICE ptx::Shared staging(int at) const {
    return shared_.staging(group_) + (kWholeRounds ? at % Tile::staging : chunk_) * kChunkBytes;
  }
  template <class Columns>
  TILELACE_DEVICE void stage(const Columns& columns, ptx::Shared chunk, float* v, int c, int row,
                             int col, int warp, int lane) const {
    if (c < kOut / 64)
      stage_results<Body, 64>(columns, chunk, v, row, col, warp, lane);
    else
      stage_results<Body, kRest>(columns, chunk, v, row, col, warp, lane);
  }

  const Params& p_;
  GemmShared<Tile> shared_;
  ClusterPlace<Tile> place_;
  Trace trace_;
  int group_, thread_, block_row_;
  int chunk_ = 0;
  int tile_ = 0;
  int releases_ = -1;  ///< released_cta() in a cluster of several rows and columns
  bool first_turn_ = group_ == 0;
  Ring<Tile::stages> ring_;
  typename Op::Finish finish_;
  float acc_[Tile::blocks][Shape::kAccumulators];
};

}  // namespace tilelace::cuda
