// SPDX-License-Identifier: Apache-2.0
// Role math of the GEMM: a warpgroup multiplies what the ring holds and stores the result.
#pragma once
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_reduce.h"
#include "backend/cuda/kernels/gemm_results.h"
#include "backend/cuda/kernels/gemm_shape.h"
#include "backend/cuda/kernels/gemm_split.h"
#include "backend/cuda/kernels/gemm_values.h"
#include "wgmma_shapes.h"

namespace tilelace::cuda {

/// Named barriers: 0 is __syncthreads, 1 .. groups a warpgroup's own, then one a turn.
constexpr int kGroupBarrier = 1;
constexpr int kTurnBarrier = 4;

template <class Tile, class Element, class Params>
class GemmMath {
  using Shape = GemmShape<Tile>;
  static constexpr int kOut = kOutWidth<Tile, Params>;
  static constexpr int kChunks = (kOut + 63) / 64;
  static constexpr int kRest = kOut % 64;
  using Partial = PartialShape<Tile>;

 public:
  TILELACE_DEVICE GemmMath(const Params& p, GemmShared<Tile> shared, Place<Tile> place, int group)
      : p_(p),
        shared_(shared),
        place_(place),
        trace_(p, shared.trace()),
        group_(group),
        thread_(static_cast<int>(threadIdx.x) & 127),
        warp_(__shfl_sync(~0U, thread_ / 32, 0)),
        lane_(thread_ & 31),
        block_row_(Tile::pingpong ? 0 : group * Tile::blocks) {
    // One thread for each CTA that fills our ring, or whose ring we help to fill.
    if (thread_ < Shape::kCluster) {
      const int cta = thread_;
      const bool shares =
          cta % Tile::cluster_rows == place.row || cta / Tile::cluster_rows == place.col;
      if (shares) releases_ = cta;
    }
  }

  TILELACE_DEVICE void skip(schedule::GemmSegment s) {
    ring_.skip(s.steps() + term_steps(s));
    ++segments_;
  }

  TILELACE_DEVICE void multiply(schedule::GemmSegment s) {
    ++segments_;
    // In turns: also because a wait for a parity that is more than one round ahead would return.
    // stays: turns keep parities apart
    if (Tile::pingpong && !first_turn_) ptx::sync_threads(kTurnBarrier + group_, 256);
    first_turn_ = false;
    note(TraceKind::turn, s.tile);
    const std::uint32_t began = ptx::cycles();
    // Whole rounds of the ring, so that stages are known when the loop is unrolled.
    const int first = ring_.stage;
    const int end = first + s.steps();
    bool here = await_first(s.tile);
    for (int round = 0; round < end; round += Tile::stages) {
#pragma unroll
      for (int stage = 0; stage < Tile::stages; ++stage) {
        const int at = round + stage;
        if (at < first) continue;
        if (at >= end) break;
        if (!here) await_stage(stage);
        constexpr int kLast = Tile::stages - 1;
        multiply_stage(stage, at != first, [&] {
          if (at != first) release(stage == 0 ? kLast : stage - 1);
          here = ptx::barrier_test(shared_.full(stage == kLast ? 0 : stage + 1),
                                   ring_.parity ^ (stage == kLast ? 1 : 0));
        });
      }
      if (round + Tile::stages <= end) ring_.parity ^= 1;
    }
    ring_.stage = end % Tile::stages;
    const int terms = term_steps(s);
    if (Tile::pingpong && terms_fit_ring(terms, Tile::stages)) {
      // The other group would not tell a stage that is still to be filled from one that is filled.
      await_terms(terms);
      hand_over();  // stays: turns keep parities apart
    }
    // Is there somebody whose loads a burst of stores would hold up?
    const bool more = Tile::pingpong && next_tile(s) < p_.work.order.tiles();
    if constexpr (Params::kReduces) turn_ = more ? ptx::cycles() - began : 0;
    ptx::wgmma_wait<0>();
    pin_accumulators();
    release((end - 1) % Tile::stages);
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

  TILELACE_DEVICE void store(schedule::GemmCell cell) {
    if constexpr (Params::kShares) tell_shared();
    const int cta_row = enter_shard<Tile>(p_, place_, cell);
    // Where it lies; sums need the order's own cell, too.
    if constexpr (Params::kGathers && kTurns<Params>) cell = turned(p_, cell);
    const schedule::GemmCell at = Params::kReduces ? turned(p_, cell) : cell;
    int row = (at.row * Tile::cluster_rows + cta_row) * Shape::kRows + 64 * block_row_;
    const int col = (tile_col(p_, at) * Tile::cluster_cols + place_.col) * kOut;
    if constexpr (Params::kReduces) {
      if (!p_.work.order.own(cell.section)) return give_terms(cell, cta_row);
      row = own_row(p_, cell, row);
      add_terms();
      if constexpr (kPairs<Params>)
        if (row >= p_.own_rows) return;  // without any, `out` is no map
      if (p_.residual != nullptr)
        add_residual<Tile, Element>(p_, acc_, row + 16 * warp_ + lane_ / 4, col + 2 * (lane_ & 3));
      note(TraceKind::summed);
    }
    if constexpr (Params::kGathers || Params::kReduces)
      if (!may_store(shared_, segments_ - 1)) return;
    if (segments_ <= Shape::kTurns) note(TraceKind::allowed);
    section_ = cell.section;
    if constexpr (Params::kShares) copies_ = p_.call.ranks;
    [[maybe_unused]] const std::uint32_t began = ptx::cycles();
    const GemmResults<Tile, Element, Params> results(p_, section_, warp_, lane_);
#pragma unroll
    for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        if constexpr (Params::kShares) pause(began, i * kChunks + c);
        const ptx::Shared chunk = shared_.staging(group_) + chunk_ * kChunkBytes;
        if (thread_ == 0) ptx::store_wait_read<Tile::staging - 1>();
        sync_group();
        if (c < kOut / 64)
          results.template stage<64>(chunk, acc_[i] + 32 * c, row + 64 * i, col + 64 * c);
        else
          results.template stage<kRest>(chunk, acc_[i] + 32 * c, row + 64 * i, col + 64 * c);
        ptx::fence_shared_to_copy();
        sync_group();
        if (thread_ == 0) {
          send(chunk, c < kOut / 64, row + 64 * i, col + 64 * c);
          ptx::store_commit();
        }
        chunk_ = chunk_ + 1 == Tile::staging ? 0 : chunk_ + 1;
      }
    note(TraceKind::stored);
    if constexpr (Params::kShares)
      untold_ =
          PartialPlace<Tile, Params>(p_, cell, place_.cta).flag_number(p_.call.rank, part_index());
  }

  /// Staged results have been read (the end of the kernel publishes them); the launch is counted.
  TILELACE_DEVICE void finish() {
    if constexpr (Params::kShares) tell_shared();
    if (thread_ != 0) return;
    ptx::store_wait_read<0>();
    note(TraceKind::exit);
    if (p_.work.split_tiles > 0) parts(0).count();
  }

 private:
  TILELACE_DEVICE void note(TraceKind kind, int argument = 0) const {
    if (thread_ == 0) trace_.add(kind, group_, argument);
  }
  /// Whether the first operands are known to be here. Traces tell their wait from all others.
  TILELACE_DEVICE bool await_first(int tile) const {
    if constexpr (kTraced) {
      ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);  // stays: traces alone
      note(TraceKind::first, tile);
    }
    return kTraced;
  }
  TILELACE_DEVICE void await_stage(int stage) const {
    [[maybe_unused]] std::uint32_t began = 0;
    if constexpr (kTraced) began = ptx::cycles();
    ptx::barrier_wait(shared_.full(stage), ring_.parity);
    if constexpr (kTraced) trace_.starved(group_, thread_, ptx::cycles() - began);
  }

  [[nodiscard]] TILELACE_DEVICE int next_tile(schedule::GemmSegment s) const {
    if constexpr (decltype(p_.work)::kInRounds)
      if (s.tile < p_.work.split_tiles) return s.tile + p_.work.round_tiles;
    return s.tile + p_.work.workers;
  }

  /// Steps of the ring that follow a segment's own: of the one that finishes an own tile.
  [[nodiscard]] TILELACE_DEVICE int term_steps(schedule::GemmSegment s) const {
    if constexpr (Params::kReduces)
      return s.begin == 0 && p_.work.order.own_tile(s.tile) ? p_.term_steps : 0;
    else
      return 0;
  }

  /// Of a CTA's tile, which the groups share or one has to itself.
  [[nodiscard]] TILELACE_DEVICE int part_index() const { return Tile::pingpong ? 0 : group_; }

  // stays: turns keep parities apart
  TILELACE_DEVICE void hand_over() { ptx::arrive_threads(kTurnBarrier + (group_ ^ 1), 256); }

  TILELACE_DEVICE void await_terms(int steps) const {
    Ring<Tile::stages> ahead = ring_;
    for (int i = 0; i < steps; ++i) {
      // stays: add_terms waits for it again
      ptx::barrier_wait(shared_.full(ahead.stage), ahead.parity);
      ahead.advance();
    }
  }

  TILELACE_DEVICE void give_terms(schedule::GemmCell cell, int cta_row) {
    const auto& order = p_.work.order;
    int first = 0;  // of the tokens, in the shard
    if constexpr (Tile::swapped)
      first = (cell.row * Tile::cluster_cols + place_.col) * Tile::width;
    else
      first =
          (cell.row * Tile::cluster_rows + (kPairs<Params> ? cta_row : place_.row)) * Shape::kRows +
          64 * block_row_;
    const int tokens = order.end(cell.section) - order.begin(cell.section) - first;
    if constexpr (Params::kShares)
      if (2 * cell.col >= order.cols) ptx::sleep_until(ptx::cycles(), p_.hold);
    cuda::give_terms<Element>(
        p_, PartialPlace<Tile, Params>(p_, cell, cta_of<Tile, Params>(place_, cta_row)),
        order.section[cell.section].owner, part_index(), acc_, tokens, kGroupBarrier + group_,
        turn_ / 128 * p_.pace / 128, admitted_number(shared_), trace_);
    note(TraceKind::given);
    if constexpr (kPairs<Params>)
      if (order.beside_own(cell.section)) pass_terms();
  }

  /// The steps of the ring in which the pair's other CTA has terms.
  TILELACE_DEVICE void pass_terms() {
    for (int i = 0; i < p_.term_steps; ++i) {
      // stays: nothing is in these steps
      ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);
      drop_stage();
    }
    // stays: turns keep parities apart
    if (Tile::pingpong && !terms_fit_ring(p_.term_steps, Tile::stages)) hand_over();
  }

  /// Adds the peers' terms, in rank order, the own one in its place among them. Beside products a
  /// load from the ring takes long, and stages that are not free yet hold the other group up: two
  /// are under way together.
  TILELACE_DEVICE void add_terms() {
    using Terms = AddTerms<Partial, TermPiece<Element>>;
    const int part = p_.term_pieces * Partial::kPieceBytes;
    const int first = part_index() * part;
    const TermsOf of{p_.call.rank, p_.work.order.ranks,
                     static_cast<std::uint32_t>(Partial::kGroups * part)};
    ptx::Shared piece = 0;
    int left = 0;
#pragma unroll
    for (int i = 0; i < Partial::kPieces; i += Partial::kAtOnce) {
      if (left == 0) {
        if (i != 0) drop_stage();
        ptx::barrier_wait(shared_.full(ring_.stage), ring_.parity);
        piece = shared_.rows(ring_.stage) + first + thread_ * 16;
        left = p_.term_pieces;
      }
      Terms::pieces(of, acc_, i, piece);
      piece += Partial::kAtOnce * Partial::kPieceBytes;
      left -= Partial::kAtOnce;
    }
    drop_stage();
    // stays: turns keep parities apart
    if (Tile::pingpong && !terms_fit_ring(p_.term_steps, Tile::stages)) hand_over();
  }

  /// A tile goes to all ranks at a pace, as partials do.
  TILELACE_DEVICE void pause(std::uint32_t began, int chunk) const {
    const std::uint32_t apart = turn_ / 128 * p_.share_pace / 128;
    ptx::sleep_until(began, chunk * apart);
  }

  /// The thread that stored tells the peers of the last tile that went to all, once everything has
  /// arrived: behind the next products, so that nobody waits for it. Its whole warp comes along, by
  /// a condition that is the same for all of it: where one thread branches off, the compiler has
  /// warps meet again in every step of the products, too.
  TILELACE_DEVICE void tell_shared() {
    const int number = untold_;
    untold_ = -1;
    if (warp_ != 0 || __shfl_sync(~0U, number, 0) < 0) return;
    const std::uint32_t epoch = admitted_number(shared_);
    if (thread_ == 0) bulk_complete();
    __syncwarp();
    // A lane a peer: one release for all, where each would wait for the flag before it.
    const int own = __shfl_sync(~0U, number, 0);
    const int peer = (p_.call.rank + lane_) % p_.call.ranks;
    std::byte* const flags = p_.call.base + peer * p_.call.stride + p_.call.flags;
    if (lane_ > 0 && lane_ < copies_)
      signal(reinterpret_cast<comm::Flag*>(flags) + p_.shared.flags.first_shared + own, epoch);
    note(TraceKind::told);
  }

  /// This group has read the terms in the ring's next stage.
  TILELACE_DEVICE void drop_stage() {
    sync_group();
    release(ring_.stage);
    ring_.advance();
  }

  /// `between`: what to do once the products of the stage before are done. Where a stage has enough
  /// of them, half of this stage's are on their way then, else all: the tensor cores never run dry.
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

  /// Keeps the compiler from moving accumulators while products are under way.
  TILELACE_DEVICE void pin_accumulators() {
#pragma unroll
    for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
      for (int j = 0; j < Shape::kAccumulators; ++j) ptx::pin(acc_[i][j]);
  }

  TILELACE_DEVICE void release(int stage) {
    if (releases_ < 0) return;
    if constexpr (Shape::kCluster > 1)
      ptx::barrier_arrive_at(shared_.empty(stage), releases_);
    else
      ptx::barrier_arrive(shared_.empty(stage));
  }

  TILELACE_DEVICE void sync_group() { ptx::sync_threads(kGroupBarrier + group_, 128); }

  [[nodiscard]] TILELACE_DEVICE SplitParts<Tile, Params> parts(int round) const {
    return {p_, place_, group_, round, thread_};
  }

  TILELACE_DEVICE void send(ptx::Shared chunk, bool whole, int row, int col) {
    const CUtensorMap* map = whole ? out_map(p_, section_) : rest_map(p_, section_);
    int copies = 1;
    if constexpr (Params::kShares) copies = copies_;
    for (; copies > 0; --copies, ++map) {
      if (Tile::swapped)
        ptx::tensor_store(map, chunk, row, col);
      else if (whole)
        ptx::tensor_store(map, chunk, col, row);
      else
        ptx::tensor_store(map, chunk, 0, row, col / 8);
    }
  }

  const Params& p_;
  GemmShared<Tile> shared_;
  Place<Tile> place_;
  Trace trace_;
  int group_, thread_, warp_, lane_, block_row_;
  int releases_ = -1;
  int chunk_ = 0;
  int segments_ = 0, section_ = 0;
  int untold_ = -1;         ///< number of a finished tile that nobody knows of yet
  int copies_ = 1;          ///< of the last finished tile: this rank's and the peers'
  std::uint32_t turn_ = 0;  ///< cycles of the last one, if another follows
  bool first_turn_ = group_ == 0;
  Ring<Tile::stages> ring_;
  float acc_[Tile::blocks][Shape::kAccumulators];
};

}  // namespace tilelace::cuda
