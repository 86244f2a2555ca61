// SPDX-License-Identifier: Apache-2.0
// Sums of own tiles, which are tiles of this rank's rows. TermLoad loads the peers' partials
// (terms) into the ring, behind the tile's operands. PeerSums adds the terms in rank order.
#pragma once
#include "backend/cuda/kernels/add_terms.h"
#include "backend/cuda/kernels/admission.h"
#include "backend/cuda/kernels/partials.h"

namespace tilelace::cuda {

/// Used by the loading warp. Loads the terms of an own tile into the ring, after the tile's
/// operands. Each ring step of terms has the same pieces of all peers and groups.
template <class Body, class Params>
class TermLoad {
  using Place = PartialPlace<Body, Params>;

 public:
  TILELACE_DEVICE TermLoad(const Params& p, schedule::GemmCell cell, int cta)
      : p_(p), cell_(cell), place_(p, cell, cta) {}

  /// Fetches the residual's rows into L2. Threads later read them a few bytes at a time, and such
  /// small reads would be slow from memory.
  TILELACE_DEVICE void prefetch_residual(int row, int col, int rows, int cols) const {
    const int bytes = 2 * min(cols, p_.n - col);
    if (p_.residual == nullptr || bytes <= 0) return;
    const int end = min(row + rows, p_.own_rows);
    const auto* const from = static_cast<const std::byte*>(p_.residual);
    for (int r = row + (static_cast<int>(threadIdx.x) & 31); r < end; r += 32)
      ptx::prefetch_bulk(from + 2 * (std::int64_t{r} * p_.n + col),
                         static_cast<std::uint32_t>(bytes));
  }

  /// Each lane waits for the flag of one term. Returns false if a term never came.
  TILELACE_DEVICE bool wait(std::uint32_t epoch, Trace trace, int tile) const {
    bool here = true;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int source = lane / Place::kGroups;
    const int group = lane % Place::kGroups;
    if (source < p_.work.order.ranks && source != p_.call.rank) {
      const auto index = static_cast<std::uint32_t>(place_.flag_number(source, group));
      const WaitPlace place{Role::reduce, cell_.section, cell_.col, source, index};
      here = cuda::wait(p_.call.wait, place, place_.flag(p_.call.rank, source, group), epoch) ==
             comm::WaitStatus::reached;
      trace.add(TraceKind::term, kLoadLane, 16 * tile + source);
    }
    const bool all = __all_sync(~0U, here ? 1 : 0) != 0;
    proxy_fence_global();  // every lane fences, since any lane may issue loads
    return all;
  }

  /// Loads the terms of ring step `step` into `stage`, which must be free. Called by one lane.
  TILELACE_DEVICE void load(int step, ptx::Shared stage, ptx::Shared full) const {
    const int first = step * p_.term_pieces;
    const int bytes = min(p_.term_pieces, Place::kPieces - first) * Place::kPieceBytes;
    ptx::barrier_expect(full, bytes * Place::kGroups * (p_.work.order.ranks - 1));
    for (int q = 0; q < p_.work.order.ranks; ++q) {
      if (q == p_.call.rank) continue;
#pragma unroll
      for (int g = 0; g < Place::kGroups; ++g) {
        const std::byte* from = place_.part(p_.call.rank, q, g) + first * Place::kPieceBytes;
        bulk_load(stage, from, static_cast<std::uint32_t>(bytes), full);
        stage += p_.term_pieces * Place::kPieceBytes;
      }
    }
  }

 private:
  const Params& p_;
  schedule::GemmCell cell_;
  Place place_;
};

/// The part of the residual that belongs to a tile.
struct ResidualTile {
  int row, col, rows, cols;
};

/// Waits for the terms of an own tile and loads them into the ring.
template <class Body, class Params, class Loader>
TILELACE_DEVICE void load_terms(Loader& loader, const Params& p, typename Body::Shared shared,
                                Trace trace, schedule::GemmCell cell, int tile, int cta,
                                ResidualTile residual) {
  const TermLoad<Body, Params> terms(p, cell, cta);
  terms.prefetch_residual(residual.row, residual.col, residual.rows, residual.cols);
  loader.note(TraceKind::wait_terms, tile);
  if (!terms.wait(admitted_number(shared), trace, tile) && ptx::elect_one())
    fail_from(shared, tile);
  __syncwarp();
  loader.note(TraceKind::terms_here, tile);
  for (int i = 0; i < p.term_steps; ++i)
    loader.fill_step([&](ptx::Shared rows, ptx::Shared full) { terms.load(i, rows, full); });
}
/// Passes the same ring steps, empty, in a CTA whose neighbour in the cluster has an own tile.
template <class Params, class Loader>
TILELACE_DEVICE void skip_terms(Loader& loader, const Params& p) {
  for (int i = 0; i < p.term_steps; ++i)
    loader.fill_step([](ptx::Shared /*rows*/, ptx::Shared full) { ptx::barrier_expect(full, 0); });
}

/// Used by a group that multiplies. Sends partials to their owners and adds terms to own tiles.
template <class Body, class Params>
class PeerSums {
  using Tile = typename Body::Tile;
  using Shape = typename Body::Shape;
  using Partial = typename Body::Partial;

 public:
  TILELACE_DEVICE PeerSums(const Params& p, typename Body::Shared shared)
      : p_(p), shared_(shared) {}

  /// Called once a tile's MMAs are issued. `began`: cycle at their start; `more`: a tile follows.
  TILELACE_DEVICE void multiplied(std::uint32_t began, bool more) {
    turn_ = more ? ptx::cycles() - began : 0;
  }
  /// `part` / 16384 of the last tile's MMA time, in cycles; 0 if no tile follows.
  [[nodiscard]] TILELACE_DEVICE std::uint32_t of_turn(std::uint32_t part) const {
    return turn_ / 128 * part / 128;
  }

  /// Sends a tile's partial to the tile's owner. `cell`: the cell as in the order, not transposed.
  template <class Math>
  TILELACE_DEVICE void give(Math& math, schedule::GemmCell cell, const CtaTile& at) const {
    const auto& order = p_.work.order;
    int first = 0;  // the group's first token, counted in the shard
    if constexpr (Tile::swapped)
      first = (cell.row * Tile::cluster_cols + math.place().col) * Tile::width;
    else
      first = (cell.row * Tile::cluster_rows + at.cta_row) * Shape::kRows + math.first_row();
    const int tokens = order.end(cell.section) - order.begin(cell.section) - first;
    send_partial<Body>(p_, PartialPlace<Body, Params>(p_, cell, at.cta),
                       order.section[cell.section].owner, math.part(), math.accumulators(), tokens,
                       math.barrier(), of_turn(p_.pace), admitted_number(shared_), math.trace());
    math.note(TraceKind::given);
  }

  /// Adds the peers' terms and the accumulator (this rank's term) in rank order. Two pieces are
  /// added at once where possible, since loads from the ring are slow while the other group
  /// multiplies, and that group needs the stages to be released.
  template <class Math>
  TILELACE_DEVICE void add(Math& math) const {
    using Terms = AddTerms<Partial, TermPiece<typename Body::Element>>;
    const int part = p_.term_pieces * Partial::kPieceBytes;
    const int first = math.part() * part;
    const TermsOf of{p_.call.rank, p_.work.order.ranks,
                     static_cast<std::uint32_t>(Partial::kGroups * part)};
    ptx::Shared piece = 0;
    int left = 0;
#pragma unroll
    for (int i = 0; i < Partial::kPieces; i += Partial::kAtOnce) {
      if (left == 0) {
        if (i != 0) math.release_step();
        piece = math.await_step() + first + math.thread() * 16;
        left = p_.term_pieces;
      }
      Terms::pieces(of, math.accumulators(), i, piece);
      piece += Partial::kAtOnce * Partial::kPieceBytes;
      left -= Partial::kAtOnce;
    }
    math.release_step();
    math.end_steps_behind(p_.term_steps);
  }
  /// Passes the ring steps that are empty here, since only the cluster's other CTA has terms.
  template <class Math>
  TILELACE_DEVICE void skip(Math& math) const {
    for (int i = 0; i < p_.term_steps; ++i) {
      (void)math.await_step();
      math.release_step();
    }
    math.end_steps_behind(p_.term_steps);
  }

 private:
  const Params& p_;
  typename Body::Shared shared_;
  std::uint32_t turn_ = 0;  ///< cycles of the last tile's MMAs; 0 if no tile follows
};

}  // namespace tilelace::cuda
