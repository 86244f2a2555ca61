// SPDX-License-Identifier: Apache-2.0
// The sum after the product, pushed: gemm_rs and gemm_ar on path `unfused` of GPU ranks where rows
// are few. As reduce_rows.h, but a rank sends its partial to those who sum, and nobody has to ask:
//
//   push    its partial of a chunk, to every rank that sums this chunk: into the place that the
//           source has there
//   reduce  once all terms are there
//   share   (gemm_ar in two shots) the sum goes to every peer: into the slot, where the peer's
//           partial for these rows was
//
// Who gets a sum has sent its own term for it, so its partial for these rows has been read, and its
// result belongs to the call: no admission is needed before anything is pushed, and one before
// anything is stored at the user's.
#pragma once
#include "schedule/reduce_rows.h"

namespace tilelace::schedule {

/// Of a worker: each has its own barriers between those who move and those who signal.
constexpr Index kMaxPushRounds = 8;

/// One chunk of every rank that has so many.
struct PushedChunk {
  Index index = 0;
};

struct PushRows : ReduceRows {
  bool everyone = false;  ///< all ranks sum all rows

  /// At who sums: the source's partial of this chunk is there.
  [[nodiscard]] TILELACE_HD constexpr Index term(int source, Index i) const {
    return source * max_chunks + i;
  }
  /// Of a rank: the owner's sum of this chunk is there.
  [[nodiscard]] TILELACE_HD constexpr Index sum(int owner, Index i) const {
    return (ranks + owner) * max_chunks + i;
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const {
    return (share ? 2 : 1) * ranks * max_chunks;
  }
  [[nodiscard]] TILELACE_HD constexpr Index rounds() const { return ceil_div(max_chunks, workers); }
  /// Which of the places at `rank` is the source's.
  [[nodiscard]] TILELACE_HD static constexpr int place(int rank, int source) {
    return source < rank ? source : source - 1;
  }
};

/// `chunk_units` may grow, so that chunks have flags.
constexpr PushRows make_push_rows(const RowSplit& split, int rank, SumForm form, Index row_units,
                                  Index chunk_units, int workers) {
  PushRows s;
  set_rows(s, split, rank, form, row_units);
  cut_rows(s, chunk_units, workers);
  s.everyone = form == SumForm::all_rows;
  return s;
}

/// Role `reduce`, worker w of s.workers, behind the product:
///   push(chunk)    terms, each to who sums it
///   admit()        all ranks make the same call: results may be stored
///   reduce(chunk)  adds the terms in rank order and stores the sum, with `share` at every peer too
///   deliver(chunk) an owner's sum, from the own slot to the user
/// All terms leave before anything is awaited, so that wires never rest. A worker waits for the
/// workers of the same number only.
template <class Verbs>
TILELACE_ROLE void run_push_rows(const PushRows& s, int worker, Verbs& v) {
  for (Index c = worker; c < s.max_chunks; c += s.workers) {
    v.push(PushedChunk{c});
    for (int i = 1; i < s.ranks; ++i) {
      const int q = (s.rank + i) % s.ranks;
      if (c < s.chunks[q]) v.signal(q, s.term(s.rank, c));
    }
  }
  v.admit();
  for (Index c = worker; c < s.chunks[s.rank]; c += s.workers) {
    for (int i = 1; i < s.ranks; ++i) v.wait(s.term((s.rank + s.ranks - i) % s.ranks, c));
    v.reduce(s.chunk(s.rank, c));
    for (int i = 1; i < s.ranks && s.share; ++i) v.signal((s.rank + i) % s.ranks, s.sum(s.rank, c));
  }
  if (!s.share) return;
  for (Index c = worker; c < s.max_chunks; c += s.workers) {
    for (int i = 1; i < s.ranks; ++i) {
      const int q = (s.rank + s.ranks - i) % s.ranks;
      if (c < s.chunks[q]) v.wait(s.sum(q, c));
    }
    for (int i = 1; i < s.ranks; ++i) {
      const int q = (s.rank + s.ranks - i) % s.ranks;
      if (c < s.chunks[q]) v.deliver(s.chunk(q, c));
    }
  }
}

}  // namespace tilelace::schedule
