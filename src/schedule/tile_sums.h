// SPDX-License-Identifier: Apache-2.0
// A fused gemm_ar in which every rank keeps its partials, and whole tiles are summed by the switch
// (transport `multimem`) or by warps that read from all ranks (transport `pull`). All ranks walk
// the tiles of the whole result [m, n]. To give a tile, a rank rounds it, stores it in its own slot
// and tells every rank. Tiles that all ranks have given are summed in pieces of 16 bytes.
//
// One-shot: every rank sums all pieces for itself. Two-shot: every rank sums an equal share of the
// pieces, stores those sums at all ranks and tells every rank again.
//
// A part of a tile, which is what one CTA computes, has two counters, `given` and `summed`. A rank
// that gives or sums a part adds one to the part's counter at every rank. A single counter would be
// wrong, since a fast rank may count its sum at a peer before a slow rank counts its partial there.
// Counters are never reset. Every rank knows how often each counter has been used; one-shot calls
// use only `given`.
//
// The GEMM waits for nothing, the sums of a tile wait only for the GEMMs of that tile, and the end
// of a tile waits only for the sums of that tile. So there is no deadlock.
#pragma once
#include "schedule/gemm.h"
#include "schedule/rows.h"

namespace tilelace::schedule {

/// Index of a part's counter among the counters of the call.
[[nodiscard]] TILELACE_HD constexpr int given_count(int part) { return 2 * part; }
[[nodiscard]] TILELACE_HD constexpr int summed_count(int part) { return 2 * part + 1; }
[[nodiscard]] TILELACE_HD constexpr int num_counts(int parts) { return 2 * parts; }

/// The pieces of a part that a rank sums in two-shot.
struct PieceRange {
  int begin = 0, end = 0;
};
[[nodiscard]] TILELACE_HD constexpr PieceRange pieces_of(int rank, int ranks, int pieces) {
  const auto border = [&](int r) { return pieces / ranks * r + pieces % ranks * r / ranks; };
  return {border(rank), border(rank + 1)};
}

/// Whether this is the last tile that its group multiplies. The group then sums the tile itself,
/// since the call's end waits for it. `lanes`: number of groups that alternate between tiles.
template <class Work>
[[nodiscard]] TILELACE_HD constexpr bool sums_itself(const Work& work, int tile, int lanes) {
  return tile + lanes * work.workers >= work.order.tiles();
}

/// The role `math` of the `lane`-th of a worker's `lanes` groups, which alternate between tiles.
/// Tiles have no shared k-steps. Verbs: skip(segment) and multiply(segment) as in run_gemm_math;
/// give(cell) stores the accumulator in the own slot; admit(); tell_given(tile) tells all ranks of
/// the stored tile, maybe during the next product. Returns the last tile, for sum_last; -1: none.
template <class Work, class Verbs>
TILELACE_ROLE int run_sums_math(const Work& work, int worker, int lane, int lanes, Verbs& v) {
  GemmSegments segments(work, worker);
  GemmSegment s;
  int last = -1;
  for (int turn = 0; segments.next(work, s); turn = turn + 1 == lanes ? 0 : turn + 1) {
    if (turn != lane) {
      v.skip(s);
      continue;
    }
    v.multiply(s);
    v.give(work.order.cell(s.tile));
    v.admit();
    v.tell_given(s.tile);
    last = s.tile;
  }
  return last;
}

namespace detail {

template <class Work, class Verbs>
TILELACE_ROLE void sum_tile(const Work& work, int tile, Verbs& v) {
  v.await_given(tile);
  v.reduce(tile, work.order.cell(tile));
  v.tell_summed(tile);
}
template <class Work, class Verbs>
TILELACE_ROLE void end_tile(const Work& work, int tile, Verbs& v) {
  v.await_summed(tile);
  v.deliver(tile, work.order.cell(tile));
}

}  // namespace detail

/// The role `reduce` of the same worker, for all tiles for which sums_itself() is false:
///   admit()               waits until this call's sums may be stored
///   await_given(tile)     waits until all ranks have given the worker's part of the tile
///   reduce(tile, cell)    adds and stores the pieces, or this rank's share of them
///   tell_summed(tile)     two-shot: tells all ranks that this rank's sums are stored at all ranks
///   await_summed(tile)    two-shot: waits until all ranks' sums have arrived
///   deliver(tile, cell)   two-shot: copies sums from the slot to `out` unless they are there
/// A worker ends a tile (await_summed, deliver) after it has summed the next tile.
template <class Work, class Verbs>
TILELACE_ROLE void run_sums_reduce(const Work& work, int worker, int lanes, Verbs& v) {
  v.admit();
  int before = -1;
  for (int tile = worker;; tile += work.workers) {
    const bool there = !sums_itself(work, tile, lanes);
    if (there) detail::sum_tile(work, tile, v);
    if (before >= 0) detail::end_tile(work, before, v);
    if (!there) return;
    before = tile;
  }
}

/// The same for the last tile of a group that multiplies. The group itself runs this role.
template <class Work, class Verbs>
TILELACE_ROLE void sum_last(const Work& work, int tile, Verbs& v) {
  if (tile < 0) return;
  v.admit();
  detail::sum_tile(work, tile, v);
  detail::end_tile(work, tile, v);
}

/// One rank's whole call, for the checker. Here a tile is `tile_m` rows of one column, and a row is
/// a piece.
struct TileSums {
  int rank = 0, ranks = 1;
  int actors = 1;  ///< number of actors, which play the roles of all workers
  Index m = 0;
  int tile_m = 1;
  bool one_shot = false;
  bool direct = false;  ///< two-shot: sums are stored directly in the peers' results
  GemmWork work;

  [[nodiscard]] constexpr int tiles() const { return work.order.tiles(); }
  [[nodiscard]] constexpr RowRange rows(GemmCell c) const {
    const Index begin = Index{c.row} * tile_m;
    return {begin, min_of(begin + tile_m, m)};
  }
  [[nodiscard]] constexpr RowRange share(GemmCell c, int of) const {
    const RowRange all = rows(c);
    if (one_shot) return all;
    const PieceRange mine = pieces_of(of, ranks, static_cast<int>(all.size()));
    return {all.begin + mine.begin, all.begin + mine.end};
  }
};

/// `order` must have m / `tile_m` rows of tiles, rounded up.
constexpr TileSums make_tile_sums(const RowSplit& split, int rank, int tile_m,
                                  const GemmOrder& order, int workers) {
  TileSums s;
  s.rank = rank;
  s.ranks = split.ranks;
  s.m = split.m;
  s.tile_m = tile_m;
  s.work = make_gemm_work(order, workers, 1, 0);
  return s;
}

}  // namespace tilelace::schedule
