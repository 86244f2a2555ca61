// SPDX-License-Identifier: Apache-2.0
// all-gather + GEMM: the order of tiles, the flags that tiles wait for, and where chunks are sent.
// Each rank has a slot (staging memory) and flags. landed(source, chunk): the chunk is in the slot;
// offered(source, chunk), only for pull: the chunk is in the slot of the rank's parent (route.h).
// Own rows are read in place, except in a whole order (gather_order.h), which stages them.
#pragma once
#include "schedule/moves.h"
#include "schedule/route.h"
#include "schedule/rows.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// One transfer: a chunk of `source`'s shard, pushed to `peer` or pulled from `peer`.
struct GatherTransfer {
  int source = 0;
  int peer = 0;
  Index chunk = 0;
  RowRange rows;
};

/// One tile: `rows` x one column of tiles. `source` is -1 if the rows straddle shards.
struct GatherTile {
  int source = 0;
  RowRange rows;
  Index col = 0;
};

struct AgGemm {
  Route route;
  RowSplit split;
  int rank = 0;
  int workers = 1;
  int tile_m = 128;
  Index cols = 1;  ///< columns of tiles, of all weights together
  Index chunk_rows = 128;
  Index raster_group = 1;
  Transport transport = {};
  bool straddle = false;
  bool deliver = false;  ///< also copy the gathered operand to the user

  [[nodiscard]] TILELACE_HD constexpr int ranks() const { return route.ranks; }
  [[nodiscard]] TILELACE_HD constexpr Bands bands(int source) const {
    return {split.shard(source), split.m, tile_m, straddle};
  }
  [[nodiscard]] TILELACE_HD constexpr Chunks chunks(int source) const {
    return {split.shard(source), chunk_rows};
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_chunks() const {
    return ceil_div(split.max_rows(), chunk_rows);
  }

  [[nodiscard]] TILELACE_HD constexpr Index landed(int source, Index chunk) const {
    return source * max_chunks() + chunk;
  }
  [[nodiscard]] TILELACE_HD constexpr Index offered(int source, Index chunk) const {
    return (ranks() + source) * max_chunks() + chunk;
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const { return 2 * ranks() * max_chunks(); }

  /// Number of bands that several shards share. straddling(i) is the i-th such band.
  [[nodiscard]] TILELACE_HD constexpr Index num_straddling() const {
    if (!straddle) return 0;
    Index whole = 0;
    for (int q = 0; q < ranks(); ++q) whole += bands(q).whole().size();
    return ceil_div(split.m, tile_m) - whole;
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange straddling(Index i) const {
    return straddling_band(split, tile_m, i);
  }

  /// Whether tiles follow a GatherOrder (gather_tiles.h), as in kernels. If not, there is no GEMM,
  /// or tiles straddle shards and follow tile(i), an order that no kernel has.
  [[nodiscard]] TILELACE_HD constexpr bool walked() const { return !straddle && cols > 0; }

  [[nodiscard]] TILELACE_HD constexpr Index num_tiles() const {
    Index n = num_straddling() * cols;
    for (int q = 0; q < ranks(); ++q) n += bands(q).whole().size() * cols;
    return n;
  }

  /// The i-th tile if !walked(): first the tiles of the own shard, then those of the other shards
  /// in order of arrival, last the straddling tiles.
  [[nodiscard]] TILELACE_HD constexpr GatherTile tile(Index i) const {
    for (int s = 0; s < ranks(); ++s) {
      const int q = route.gather_order(rank, s);
      const Bands b = bands(q);
      const RowRange whole = b.whole();
      if (i < whole.size() * cols) {
        const Raster::Cell c = Raster{whole.size(), cols, raster_group}.cell(i);
        return {q, b.rows(whole.begin + c.band), c.col};
      }
      i -= whole.size() * cols;
    }
    return {-1, straddling(i / cols), i % cols};
  }
};

namespace detail {

template <class Verbs>
TILELACE_ROLE void wait_for_rows(const AgGemm& s, int source, RowRange rows, Verbs& v) {
  if (source == s.rank || rows.size() == 0) return;
  const Chunks chunks = s.chunks(source);
  for (Index c = chunks.chunk_of(rows.begin); c <= chunks.chunk_of(rows.end - 1); ++c) {
    v.wait(s.landed(source, c));
  }
}

template <class Verbs>
TILELACE_ROLE void push_chunks(const AgGemm& s, int source, int peer, Index first, Index step,
                               Verbs& v) {
  const Chunks chunks = s.chunks(source);
  for (Index c = first; c < chunks.count(); c += step) {
    if (source != s.rank) v.wait(s.landed(source, c));
    v.push(GatherTransfer{source, peer, c, chunks.rows(c)});
    v.signal(peer, s.landed(source, c));
  }
}

/// Pull: stages the own shard for the peers, then fetches the other shards in order of arrival.
template <class Verbs>
TILELACE_ROLE void run_pull(const AgGemm& s, Verbs& v) {
  for (int i = 0; i < s.ranks(); ++i) {
    const int source = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(source);
    for (Index c = 0; c < chunks.count(); ++c) {
      if (source == s.rank) {
        v.stage(GatherTransfer{source, s.rank, c, chunks.rows(c)});
      } else {
        v.wait(s.offered(source, c));
        v.pull(GatherTransfer{source, s.route.parent(source, s.rank), c, chunks.rows(c)});
        v.signal(s.rank, s.landed(source, c));
      }
      for (int j = 0; j < s.route.num_children(source, s.rank); ++j) {
        v.signal(s.route.child(source, s.rank, j), s.offered(source, c));
      }
    }
  }
}

}  // namespace detail

/// Role `copy` (one per rank): sends headers to every peer, makes this rank's transfers, then
/// copies the gathered operand to the user if `deliver`. Shards are sent in rotated order, so that
/// each rank sends to one peer and receives from one peer at a time.
template <class Verbs>
TILELACE_ROLE void run_copy(const AgGemm& s, Verbs& v) {
  signal_headers(s.ranks(), s.rank, v);
  if (pulls(s.transport)) detail::run_pull(s, v);
  if (pushes(s.transport)) {
    for (int i = 0; i < s.ranks(); ++i) {
      const int source = s.route.gather_order(s.rank, i);
      for (int j = 0; j < s.route.num_children(source, s.rank); ++j) {
        detail::push_chunks(s, source, s.route.child(source, s.rank, j), 0, 1, v);
      }
    }
  }
  v.admit();
  if (!s.deliver) return;
  for (int i = 0; i < s.ranks(); ++i) {
    const int source = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(source);
    for (Index c = 0; c < chunks.count(); ++c) {
      detail::wait_for_rows(s, source, chunks.rows(c), v);
      v.deliver(GatherTransfer{source, s.rank, c, chunks.rows(c)});
    }
  }
}

/// First part of role `compute`, with transport `store`: worker w's share of the pushes.
template <class Verbs>
TILELACE_ROLE void run_sends(const AgGemm& s, int worker, Verbs& v) {
  if (!by_workers(s.transport)) return;
  for (int j = 0; j < s.route.num_children(s.rank, s.rank); ++j) {
    detail::push_chunks(s, s.rank, s.route.child(s.rank, s.rank, j), worker, s.workers, v);
  }
}

/// Second part of role `compute`, if !s.walked(): computes every s.workers-th tile. Products may
/// begin before the peers' headers arrive, but results are written only after their arrival.
template <class Verbs>
TILELACE_ROLE void run_tiles(const AgGemm& s, int worker, Verbs& v) {
  bool admitted = false;
  const Index tiles = s.num_tiles();
  for (Index i = worker; i < tiles; i += s.workers) {
    const GatherTile t = s.tile(i);
    const int begin = t.source >= 0 ? t.source : 0;
    const int end = t.source >= 0 ? t.source + 1 : s.ranks();
    for (int q = begin; q < end; ++q) {
      detail::wait_for_rows(s, q, intersect(t.rows, s.split.shard(q)), v);
    }
    v.compute(t);
    if (!admitted) v.admit();
    admitted = true;
    v.store(t);
  }
  if (!admitted) v.admit();
}

}  // namespace tilelace::schedule
