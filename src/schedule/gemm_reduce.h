// SPDX-License-Identifier: Apache-2.0
// The role loops of GEMM + reduce-scatter and GEMM + all-reduce. Their tiles, chunks and flags are
// described in gemm_reduce_index.h.
#pragma once
#include "schedule/gemm_reduce_index.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

namespace detail {

/// Waits until the tiles that p computed for these rows of shard q are in p's slot.
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
    if (by_workers(s.transport)) {
      v.wait(s.partial(p, t.block, t.owner, t.index));
      continue;
    }
    const Chunks chunks = s.chunks(t.block, t.owner);
    for (Index c = chunks.chunk_of(t.rows.begin); c <= chunks.chunk_of(t.rows.end - 1); ++c) {
      v.wait(s.partial(p, t.block, t.owner, c));
    }
  }
}

/// Sends the accumulator, which holds this rank's partial of a remote shard, towards the owner.
template <class Verbs>
TILELACE_ROLE void hand_over(const GemmReduce& s, const ReduceTile& t, Verbs& v) {
  const int parent = s.route.parent(t.owner, s.rank);
  if (by_workers(s.transport)) {
    v.store_partial(t, parent);
    v.signal(parent, s.partial(s.rank, t.block, t.owner, t.index));
    return;
  }
  v.partial(t);
  v.signal(pulls(s.transport) ? parent : s.rank, s.done(s.rank, t.block, t.owner, t.index));
}

/// Adds the peers' partials to the accumulator, which holds this rank's partial of its own shard,
/// and writes the result.
template <class Verbs>
TILELACE_ROLE void finish(const GemmReduce& s, const ReduceTile& t, bool& admitted, Verbs& v) {
  wait_for_partials(s, t, v);
  v.reduce(t);
  if (!admitted) v.admit();
  admitted = true;
  v.store(t);
  if (!s.all_reduce) return;
  if (pushes(s.transport)) {
    v.signal(s.rank, s.done(s.rank, t.block, s.rank, t.index));
    return;
  }
  for (int i = 0; i < s.route.num_children(s.rank, s.rank); ++i) {
    const int peer = s.route.child(s.rank, s.rank, i);
    if (pulls(s.transport)) {
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

/// Mesh: sends partials of block b alternately with results of block b - 1, in the order of tiles.
/// In a mesh no rank relays, so a transfer never depends on a transfer that is queued after it.
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

/// Pull (mesh only): fetches the peers' partials of the own shard in the order in which the peers
/// compute them.
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

/// First part of role `compute`: computes straddling tiles, so that peers get their pieces early.
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

/// gemm_ar: copies the other ranks' finished rows of block b from the result slot to the user. The
/// workers share the rows.
template <class Verbs>
TILELACE_ROLE void deliver_results(const GemmReduce& s, int b, int worker, Verbs& v) {
  Index turn = 0;
  for (int i = 1; i < s.ranks(); ++i) {
    const int q = s.route.gather_order(s.rank, i);
    const Chunks chunks = s.chunks(b, q);
    for (Index c = 0; c < chunks.count(); ++c, ++turn) {
      if (turn % s.workers != worker) continue;
      const RowRange rows = chunks.rows(c);
      if (by_workers(s.transport)) {
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

/// One tile that lies in one shard: computes the product, adds the partials of this rank's children
/// in the tree, then sends the sum to the parent or stores the result.
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

/// Role `copy` (one per rank): sends headers, then makes the transfers. If ranks relay or pull,
/// results of a block are sent after the partials of the next block, so that waiting for results
/// does not delay partials.
template <class Verbs>
TILELACE_ROLE void run_copy(const GemmReduce& s, Verbs& v) {
  signal_headers(s.ranks(), s.rank, v);
  const bool push = pushes(s.transport);
  for (int b = 0; b <= s.blocks && !by_workers(s.transport); ++b) {
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

/// Role `compute`, worker w of s.workers, without a kernel's order of tiles (!s.walked()): computes
/// straddling tiles, then every s.workers-th tile. Delivers the results of a block two blocks
/// later, when they have probably arrived.
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
