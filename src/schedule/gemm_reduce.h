// SPDX-License-Identifier: Apache-2.0
// GEMM + reduce-scatter and GEMM + all-reduce: one schedule. An all-reduce is the reduce-scatter in
// row super-blocks (each split over the ranks) whose owners also send the finished rows to all.
//
// A rank computes every shard: remote ones first, its own last. Partials for shard q go up q's
// tree; who has children there adds their partials to its own in rank order. Flags of a rank:
//   done(p, b, q, t)     tile t of shard q of block b, computed by p, is in p's outgoing slot (or,
//                        where p == q, in p's result slot); lives at p (push) or at the reader
//                        (pull)
//   partial(p, b, q, c)  chunk c of p's partials is in this rank's incoming slot
//   result(b, q, c)      chunk c of the finished shard is in this rank's result slot
// Under transport `store` a chunk is a tile: c means t.
#pragma once
#include "schedule/route.h"
#include "schedule/rows.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// One tile of shard `owner` of super-block `block`. index counts band x column in the shard.
/// owner is -1 for a tile whose rows straddle shards: see GemmReduce::piece.
struct ReduceTile {
  int block = 0;
  int owner = 0;
  Index index = 0;
  RowRange rows;
  Index col = 0;
};

/// One chunk of shard `owner`, between this rank and `peer`.
struct ReduceTransfer {
  int block = 0;
  int owner = 0;
  int peer = 0;
  Index chunk = 0;
  RowRange rows;
};

struct GemmReduce {
  Route route;
  RowSplit split;  ///< gemm_rs: the shards; gemm_ar: only m and ranks
  int rank = 0;
  int workers = 1;
  int tile_m = 128;
  Index cols = 1;
  Index chunk_rows = 128;
  Index raster_group = 1;
  int blocks = 1;
  Index block_grain = 1;  ///< rows that super-blocks are multiples of, the last one excepted
  Transport transport = Transport::push;
  bool straddle = false;  ///< one block, mesh, not all_reduce
  bool all_reduce = false;

  [[nodiscard]] TILELACE_HD constexpr int ranks() const { return route.ranks; }

  /// Rows of super-block b: two units, in the last one what is left, which is never more. A unit is
  /// a multiple of block_grain, so that the last block has about one where m allows.
  [[nodiscard]] TILELACE_HD constexpr RowRange block_rows(int b) const {
    const Index share = split.m / (2 * blocks - 1);
    Index unit = max_of(1, share / block_grain) * block_grain;
    if (split.m > 2 * blocks * unit) unit += block_grain;
    return {min_of(2 * b * unit, split.m),
            b == blocks - 1 ? split.m : min_of(2 * (b + 1) * unit, split.m)};
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange shard(int b, int q) const {
    if (!all_reduce) return split.shard(q);
    const RowRange rows = block_rows(b);
    const RowSplit inner{rows.size(), ranks(), nullptr};
    return {rows.begin + inner.begin(q), rows.begin + inner.begin(q + 1)};
  }
  [[nodiscard]] TILELACE_HD constexpr Bands bands(int b, int q) const {
    return {shard(b, q), split.m, tile_m, straddle};
  }
  [[nodiscard]] TILELACE_HD constexpr Chunks chunks(int b, int q) const {
    return {shard(b, q), chunk_rows};
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_shard_rows() const {
    if (!all_reduce) return split.max_rows();
    Index most = 0;
    for (int b = 0; b < blocks; ++b) most = max_of(most, ceil_div(block_rows(b).size(), ranks()));
    return most;
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_tiles() const {
    return (ceil_div(max_shard_rows(), tile_m) + (straddle ? 1 : 0)) * cols;
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_chunks() const {
    if (transport == Transport::store) return max_tiles();
    return ceil_div(max_shard_rows(), chunk_rows);
  }

  [[nodiscard]] TILELACE_HD constexpr Index done(int p, int b, int q, Index t) const {
    return ((p * blocks + b) * ranks() + q) * max_tiles() + t;
  }
  [[nodiscard]] TILELACE_HD constexpr Index partial(int p, int b, int q, Index c) const {
    return done(ranks(), 0, 0, 0) + ((p * blocks + b) * ranks() + q) * max_chunks() + c;
  }
  [[nodiscard]] TILELACE_HD constexpr Index result(int b, int q, Index c) const {
    return partial(ranks(), 0, 0, 0) + (b * ranks() + q) * max_chunks() + c;
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const { return result(blocks, 0, 0); }

  /// Where incoming partials of child p for a row of shard q stand in the incoming slot. Mesh:
  /// ranks areas of the own rows. Ring: one area of all rows. Two-level: an area of all rows for
  /// each lane, then one of the own rows for each node.
  [[nodiscard]] TILELACE_HD constexpr Index incoming_row(int p, int b, int q, Index row) const {
    const Index own = own_row(b, q, row);
    if (route.kind == RouteKind::mesh) return p * max_own_rows() + own;
    if (route.kind == RouteKind::ring) return row;
    if (route.node(p) == route.node(rank)) return route.lane(p) * split.m + row;
    return route.local * split.m + route.node(p) * max_own_rows() + own;
  }
  [[nodiscard]] TILELACE_HD constexpr Index incoming_rows() const {
    if (route.kind == RouteKind::mesh) return ranks() * max_own_rows();
    if (route.kind == RouteKind::ring) return split.m;
    return route.local * split.m + route.nodes() * max_own_rows();
  }
  [[nodiscard]] TILELACE_HD constexpr Index max_own_rows() const {
    return all_reduce ? blocks * max_shard_rows() : max_shard_rows();
  }
  [[nodiscard]] TILELACE_HD constexpr Index own_row(int b, int q, Index row) const {
    return b * max_shard_rows() + row - shard(b, q).begin;
  }

  [[nodiscard]] TILELACE_HD constexpr Index num_straddling() const {
    if (!straddle) return 0;
    Index whole = 0;
    for (int q = 0; q < ranks(); ++q) whole += bands(0, q).whole().size();
    return ceil_div(split.m, tile_m) - whole;
  }
  [[nodiscard]] TILELACE_HD constexpr RowRange straddling(Index i) const {
    return straddling_band(split, tile_m, i);
  }
  [[nodiscard]] TILELACE_HD constexpr ReduceTile straddling_tile(Index i) const {
    return {0, -1, i, straddling(i / cols), i % cols};
  }
  /// The part of a straddling tile that belongs to shard q (no rows if none does).
  [[nodiscard]] TILELACE_HD constexpr ReduceTile piece(const ReduceTile& t, int q) const {
    const RowRange rows = intersect(t.rows, shard(0, q));
    const Index band = rows.size() > 0 ? bands(0, q).band_of(rows.begin) : 0;
    return {0, q, band * cols + t.col, rows, t.col};
  }

  /// Tiles that lie in one shard.
  [[nodiscard]] TILELACE_HD constexpr Index num_tiles() const {
    Index n = 0;
    for (int b = 0; b < blocks; ++b) {
      for (int q = 0; q < ranks(); ++q) n += bands(b, q).whole().size() * cols;
    }
    return n;
  }
  /// Shards come in segments: segment b holds the remote shards of block b and, behind the first of
  /// them, the own shard of block b - 1. That late the peers' partials for it have arrived, and its
  /// results still travel under block b. Segment `blocks` is the own shard of the last block.
  struct Visit {
    int block = 0;
    int owner = -1;  ///< -1: nothing here
  };
  [[nodiscard]] TILELACE_HD constexpr int visits() const { return ranks() > 2 ? ranks() : 2; }
  [[nodiscard]] TILELACE_HD constexpr Visit visit(int segment, int j) const {
    if (j == 1) return {segment - 1, segment > 0 ? rank : -1};
    const int remote = j == 0 ? 0 : j - 1;
    const bool there = segment < blocks && remote < ranks() - 1;
    return {segment, there ? route.reduce_order(rank, remote) : -1};
  }
  [[nodiscard]] TILELACE_HD constexpr Index segment_tiles(int segment) const {
    Index n = 0;
    for (int j = 0; j < visits(); ++j) {
      const Visit at = visit(segment, j);
      if (at.owner >= 0) n += bands(at.block, at.owner).whole().size() * cols;
    }
    return n;
  }

  /// The i-th tile of this rank.
  [[nodiscard]] TILELACE_HD constexpr ReduceTile tile(Index i) const {
    for (int segment = 0; segment <= blocks; ++segment) {
      for (int j = 0; j < visits(); ++j) {
        const Visit at = visit(segment, j);
        if (at.owner < 0) continue;
        const Bands shard_bands = bands(at.block, at.owner);
        const RowRange whole = shard_bands.whole();
        if (i < whole.size() * cols) {
          const Raster::Cell c = Raster{whole.size(), cols, raster_group}.cell(i);
          const Index band = whole.begin + c.band;
          return {at.block, at.owner, band * cols + c.col, shard_bands.rows(band), c.col};
        }
        i -= whole.size() * cols;
      }
    }
    return {};
  }
};

namespace detail {

/// Waits until the tiles that make up these rows of shard q, computed by p, are in p's slot.
template <class Verbs>
TILELACE_ROLE void wait_for_tiles(const GemmReduce& s, int p, int b, int q, RowRange rows,
                                  Verbs& v) {
  const Bands bands = s.bands(b, q);
  for (Index j = bands.band_of(rows.begin); j <= bands.band_of(rows.end - 1); ++j) {
    for (Index col = 0; col < s.cols; ++col) v.wait(s.done(p, b, q, j * s.cols + col));
  }
}

/// Waits for every child's partials of this tile.
template <class Verbs>
TILELACE_ROLE void wait_for_partials(const GemmReduce& s, const ReduceTile& t, Verbs& v) {
  for (int p = 0; p < s.ranks(); ++p) {
    if (!s.route.is_child(t.owner, s.rank, p)) continue;
    if (s.transport == Transport::store) {
      v.wait(s.partial(p, t.block, t.owner, t.index));
      continue;
    }
    const Chunks chunks = s.chunks(t.block, t.owner);
    for (Index c = chunks.chunk_of(t.rows.begin); c <= chunks.chunk_of(t.rows.end - 1); ++c) {
      v.wait(s.partial(p, t.block, t.owner, c));
    }
  }
}

/// The accumulator holds this rank's part of a remote shard: pass it on towards the owner.
template <class Verbs>
TILELACE_ROLE void hand_over(const GemmReduce& s, const ReduceTile& t, Verbs& v) {
  const int parent = s.route.parent(t.owner, s.rank);
  if (s.transport == Transport::store) {
    v.store_partial(t, parent);
    v.signal(parent, s.partial(s.rank, t.block, t.owner, t.index));
    return;
  }
  v.partial(t);
  v.signal(s.transport == Transport::pull ? parent : s.rank,
           s.done(s.rank, t.block, t.owner, t.index));
}

/// The accumulator holds the own shard's part: add the peers' and write the result.
template <class Verbs>
TILELACE_ROLE void finish(const GemmReduce& s, const ReduceTile& t, bool& admitted, Verbs& v) {
  wait_for_partials(s, t, v);
  v.reduce(t);
  if (!admitted) v.admit();
  admitted = true;
  v.store(t);
  if (!s.all_reduce) return;
  if (s.transport == Transport::push) {
    v.signal(s.rank, s.done(s.rank, t.block, s.rank, t.index));
    return;
  }
  for (int i = 0; i < s.route.num_children(s.rank, s.rank); ++i) {
    const int peer = s.route.child(s.rank, s.rank, i);
    if (s.transport == Transport::pull) {
      v.signal(peer, s.done(s.rank, t.block, s.rank, t.index));
    } else {
      v.store_result(t, peer);
      v.signal(peer, s.result(t.block, s.rank, t.index));
    }
  }
}

template <class Verbs>
TILELACE_ROLE void send_partial_chunk(const GemmReduce& s, int b, int q, Index c, Verbs& v) {
  const int peer = s.route.parent(q, s.rank);
  const RowRange rows = s.chunks(b, q).rows(c);
  wait_for_tiles(s, s.rank, b, q, rows, v);
  v.send_partial(ReduceTransfer{b, q, peer, c, rows});
  v.signal(peer, s.partial(s.rank, b, q, c));
}

template <class Verbs>
TILELACE_ROLE void send_result_chunk(const GemmReduce& s, int b, int q, int peer, Index c,
                                     Verbs& v) {
  const RowRange rows = s.chunks(b, q).rows(c);
  if (q == s.rank) {
    wait_for_tiles(s, q, b, q, rows, v);
  } else {
    v.wait(s.result(b, q, c));
  }
  v.send_result(ReduceTransfer{b, q, peer, c, rows});
  v.signal(peer, s.result(b, q, c));
}

template <class Verbs>
TILELACE_ROLE void send_partials(const GemmReduce& s, int b, Verbs& v) {
  for (int i = 0; i < s.ranks() - 1; ++i) {
    const int q = s.route.reduce_order(s.rank, i);
    for (Index c = 0; c < s.chunks(b, q).count(); ++c) send_partial_chunk(s, b, q, c, v);
  }
}

template <class Verbs>
TILELACE_ROLE void send_results(const GemmReduce& s, int b, Verbs& v) {
  for (int i = 0; i < s.ranks(); ++i) {
    const int q = s.route.gather_order(s.rank, i);
    for (int j = 0; j < s.route.num_children(q, s.rank); ++j) {
      const int peer = s.route.child(q, s.rank, j);
      for (Index c = 0; c < s.chunks(b, q).count(); ++c) send_result_chunk(s, b, q, peer, c, v);
    }
  }
}

/// Mesh: partials of block b in turn with results of block b - 1, as the tile order makes them.
/// Nobody relays, so neither can hold up what the other waits for.
template <class Verbs>
TILELACE_ROLE void send_in_turn(const GemmReduce& s, int b, Verbs& v) {
  for (int i = 0; i < s.ranks() - 1; ++i) {
    const int q = s.route.reduce_order(s.rank, i);
    const Index results = b > 0 && s.all_reduce ? s.chunks(b - 1, s.rank).count() : 0;
    const Index partials = b < s.blocks ? s.chunks(b, q).count() : 0;
    for (Index c = 0; c < max_of(results, partials); ++c) {
      if (c < partials) send_partial_chunk(s, b, q, c, v);
      if (c < results) send_result_chunk(s, b - 1, s.rank, q, c, v);
    }
  }
}

/// Pull (mesh only): peers' partials of the own shard, in the order in which they compute them.
template <class Verbs>
TILELACE_ROLE void fetch_partials(const GemmReduce& s, int b, Verbs& v) {
  for (int i = 1; i < s.ranks(); ++i) {
    const int p = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(b, s.rank);
    for (Index c = 0; c < chunks.count(); ++c) {
      wait_for_tiles(s, p, b, s.rank, chunks.rows(c), v);
      v.fetch_partial(ReduceTransfer{b, s.rank, p, c, chunks.rows(c)});
      v.signal(s.rank, s.partial(p, b, s.rank, c));
    }
  }
}

template <class Verbs>
TILELACE_ROLE void fetch_results(const GemmReduce& s, int b, Verbs& v) {
  for (int i = 1; i < s.ranks(); ++i) {
    const int q = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(b, q);
    for (Index c = 0; c < chunks.count(); ++c) {
      wait_for_tiles(s, q, b, q, chunks.rows(c), v);
      v.fetch_result(ReduceTransfer{b, q, q, c, chunks.rows(c)});
      v.signal(s.rank, s.result(b, q, c));
    }
  }
}

/// Role compute, first part: straddling tiles, so that the peers get their pieces early.
template <class Verbs>
TILELACE_ROLE void run_straddling(const GemmReduce& s, int worker, Verbs& v) {
  for (Index i = worker; i < s.num_straddling() * s.cols; i += s.workers) {
    const ReduceTile t = s.straddling_tile(i);
    v.compute(t);
    for (int j = 0; j < s.ranks(); ++j) {
      const int q = s.route.reduce_order(s.rank, j);
      const ReduceTile piece = s.piece(t, q);
      if (piece.rows.size() == 0) continue;
      if (q == s.rank) {
        v.park(piece);
      } else {
        hand_over(s, piece, v);
      }
    }
  }
}

template <class Verbs>
TILELACE_ROLE void finish_straddling(const GemmReduce& s, int worker, bool& admitted, Verbs& v) {
  for (Index i = worker; i < s.num_straddling() * s.cols; i += s.workers) {
    const ReduceTile piece = s.piece(s.straddling_tile(i), s.rank);
    if (piece.rows.size() == 0) continue;
    v.unpark(piece);
    finish(s, piece, admitted, v);
  }
}

/// gemm_ar: the others' finished rows of block b from the result slot to the user, dealt over the
/// workers.
template <class Verbs>
TILELACE_ROLE void deliver_results(const GemmReduce& s, int b, int worker, Verbs& v) {
  Index turn = 0;
  for (int i = 1; i < s.ranks(); ++i) {
    const int q = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(b, q);
    for (Index c = 0; c < chunks.count(); ++c, ++turn) {
      if (turn % s.workers != worker) continue;
      const RowRange rows = chunks.rows(c);
      if (s.transport == Transport::store) {
        const Bands bands = s.bands(b, q);
        for (Index j = bands.band_of(rows.begin); j <= bands.band_of(rows.end - 1); ++j) {
          for (Index col = 0; col < s.cols; ++col) v.wait(s.result(b, q, j * s.cols + col));
        }
      } else {
        v.wait(s.result(b, q, c));
      }
      v.deliver(ReduceTransfer{b, q, s.rank, c, rows});
    }
  }
}

/// One tile of the main order: product, partials of those below in the tree, then up or out.
template <class Verbs>
TILELACE_ROLE void run_tile(const GemmReduce& s, const ReduceTile& t, bool& admitted, Verbs& v) {
  v.compute(t);
  if (t.owner == s.rank) {
    finish(s, t, admitted, v);
    return;
  }
  if (s.route.num_children(t.owner, s.rank) > 0) {
    wait_for_partials(s, t, v);
    v.reduce(t);
  }
  hand_over(s, t, v);
}

}  // namespace detail

/// Role `copy` (one a rank): headers, then the transfers. Where ranks relay or pull, results of a
/// block go out after the partials of the next, so that waiting for them holds up nothing ready.
template <class Verbs>
TILELACE_ROLE void run_copy(const GemmReduce& s, Verbs& v) {
  signal_headers(s.ranks(), s.rank, v);
  const bool push = s.transport == Transport::push;
  for (int b = 0; b <= s.blocks && s.transport != Transport::store; ++b) {
    if (push && s.route.kind == RouteKind::mesh) {
      detail::send_in_turn(s, b, v);
      continue;
    }
    if (b < s.blocks) push ? detail::send_partials(s, b, v) : detail::fetch_partials(s, b, v);
    if (b > 0 && s.all_reduce) {
      push ? detail::send_results(s, b - 1, v) : detail::fetch_results(s, b - 1, v);
    }
  }
  v.admit();
}

/// Role `compute`, worker w of s.workers: straddling tiles, then every workers-th tile. Results are
/// delivered two blocks behind, when they are likely to be there.
template <class Verbs>
TILELACE_ROLE void run_compute(const GemmReduce& s, int worker, Verbs& v) {
  bool admitted = false;
  detail::run_straddling(s, worker, v);
  Index i = worker;
  Index end = 0;
  for (int segment = 0; segment <= s.blocks; ++segment) {
    end += s.segment_tiles(segment);
    for (; i < end; i += s.workers) detail::run_tile(s, s.tile(i), admitted, v);
    if (!s.all_reduce || segment < 2) continue;
    if (!admitted) v.admit();
    admitted = true;
    detail::deliver_results(s, segment - 2, worker, v);
  }
  detail::finish_straddling(s, worker, admitted, v);
  if (!admitted) v.admit();
  if (!s.all_reduce) return;
  for (int b = s.blocks > 1 ? s.blocks - 1 : 0; b < s.blocks; ++b) {
    detail::deliver_results(s, b, worker, v);
  }
}

}  // namespace tilelace::schedule
