// SPDX-License-Identifier: Apache-2.0
// A gemm_ar whose sums are made by the switch (transport `multimem`). All ranks walk the tiles of
// the whole product [m, n] in the same order. A finished tile goes, rounded, into the own slot, and
// every rank is told; a tile that all ranks have given is summed in pieces of 16 bytes, an equal
// share of them by each rank, which stores the sums with all and tells every rank again.
//
// Two counts a part of a tile, a part being what one CTA of a worker computes: `given` and
// `summed`. Each rank adds one to each of them at every rank, once a call. One count for both would
// not do: a rank that has seen all partials may count its sums at a peer before another rank's
// partial is counted there. Counts are never set back: a rank knows how many calls have used them.
//
// No rank waits for ever: products wait for nobody, sums of a tile for the products of the same
// tile, the end of a tile for sums of the same tile.
#pragma once
#include "schedule/gemm.h"
#include "schedule/rows.h"

namespace tilelace::schedule {

/// Counts of a part, among those of the call.
[[nodiscard]] TILELACE_HD constexpr int given_count(int part) { return 2 * part; }
[[nodiscard]] TILELACE_HD constexpr int summed_count(int part) { return 2 * part + 1; }
[[nodiscard]] TILELACE_HD constexpr int num_counts(int parts) { return 2 * parts; }

/// Which of a part's pieces a rank sums.
struct PieceRange {
  int begin = 0, end = 0;
};
[[nodiscard]] TILELACE_HD constexpr PieceRange pieces_of(int rank, int ranks, int pieces) {
  const auto border = [&](int r) { return pieces / ranks * r + pieces % ranks * r / ranks; };
  return {border(rank), border(rank + 1)};
}

/// Role math, of the worker's `lane`-th of `lanes` warpgroups that take turns; whole tiles only.
/// Verbs: skip(segment), multiply(segment) as run_gemm_math; admit(); give(cell) stores the
/// accumulator in the own slot; tell_given(tile) once it is there. A tile is told behind the
/// product of the next one, so that nobody waits for its stores.
template <class Work, class Verbs>
TILELACE_ROLE void run_multimem_math(const Work& work, int worker, int lane, int lanes, Verbs& v) {
  GemmSegments segments(work, worker);
  GemmSegment s;
  int untold = -1;
  for (int turn = 0; segments.next(work, s); turn = turn + 1 == lanes ? 0 : turn + 1) {
    if (turn != lane) {
      v.skip(s);
      continue;
    }
    v.multiply(s);
    if (untold >= 0) {
      v.admit();
      v.tell_given(untold);
    }
    v.give(work.order.cell(s.tile));
    untold = s.tile;
  }
  if (untold < 0) return;
  v.admit();
  v.tell_given(untold);
}

/// Role reduce, of the same worker:
///   await_given(tile)     all ranks' partials of the worker's part are in their slots
///   reduce(tile, cell)    this rank's share of the pieces: added up, stored with all ranks
///   tell_summed(tile)     they are there
///   await_summed(tile)    all ranks' shares are here
///   deliver(tile, cell)   from the own slot to the user, where sums are not stored there
/// The end of a tile comes behind the sums of the next one.
template <class Work, class Verbs>
TILELACE_ROLE void run_multimem_reduce(const Work& work, int worker, Verbs& v) {
  v.admit();
  GemmSegments segments(work, worker);
  GemmSegment s;
  int before = -1;
  while (segments.next(work, s)) {
    v.await_given(s.tile);
    v.reduce(s.tile, work.order.cell(s.tile));
    v.tell_summed(s.tile);
    if (before >= 0) {
      v.await_summed(before);
      v.deliver(before, work.order.cell(before));
    }
    before = s.tile;
  }
  if (before < 0) return;
  v.await_summed(before);
  v.deliver(before, work.order.cell(before));
}

/// All of it for a rank, where a tile is `tile_m` rows of one column of tiles, as the checker sees
/// it. A row is a piece.
struct MultimemTiles {
  int rank = 0, ranks = 1;
  int actors = 1;  ///< that play the roles of all workers
  Index m = 0;
  int tile_m = 1;
  bool direct = false;  ///< sums go to where peers want them
  GemmWork work;

  [[nodiscard]] constexpr int tiles() const { return work.order.tiles(); }
  [[nodiscard]] constexpr RowRange rows(GemmCell c) const {
    const Index begin = Index{c.row} * tile_m;
    return {begin, min_of(begin + tile_m, m)};
  }
  [[nodiscard]] constexpr RowRange share(GemmCell c, int of) const {
    const RowRange all = rows(c);
    const PieceRange mine = pieces_of(of, ranks, static_cast<int>(all.size()));
    return {all.begin + mine.begin, all.begin + mine.end};
  }
};

/// `order`: as many rows of tiles as m has.
constexpr MultimemTiles make_multimem_tiles(const RowSplit& split, int rank, int tile_m,
                                            const GemmOrder& order, int workers) {
  MultimemTiles s;
  s.rank = rank;
  s.ranks = split.ranks;
  s.m = split.m;
  s.tile_m = tile_m;
  s.work = make_gemm_work(order, workers, 1, 0);
  return s;
}

}  // namespace tilelace::schedule
