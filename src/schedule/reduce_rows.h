// SPDX-License-Identifier: Apache-2.0
// The sum after the GEMM, in gemm_rs and gemm_ar on path `unfused` of GPU ranks. Every rank has its
// partial [m, n] in its slot (staging); a rank pulls the rows that it needs from all slots. Forms:
//
//   gemm_rs             a rank sums the rows of its shard
//   gemm_ar, one-shot   a rank sums all rows
//   gemm_ar, two-shot   a rank sums its rows and stores the sum in every peer's slot (`share`),
//                       over the peer's partial for these rows, which is no longer needed, since
//                       only the rank that sums the rows reads that partial
//
// Units are 16 bytes; rows are contiguous. A rank sends the header of a call after its GEMM, so the
// admission, which waits for all headers, is the only wait before pulling. Two slots alternate, so
// call c + 2 overwrites the partial of call c. By then, the header of call c + 1 has arrived from
// every peer, and a peer sends that header only after it has pulled for call c.
#pragma once
#include "schedule/rows.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// The most chunks of a shard that a slot has flags for.
constexpr Index kMaxSumChunks = 1024;
/// The most units of a chunk that is a part of a row.
constexpr Index kWideUnits = 512;
/// With this many rounds or more, even_chunk leaves chunks as they are.
constexpr Index kManyRounds = 4;

/// Some units of one owner's rows.
struct SumChunk {
  int owner = 0;
  Index index = 0;
  RowRange units;
};

struct ReduceRows {
  int rank = 0, ranks = 1;
  int workers = 1;
  bool share = false;
  Index chunk_units = 1;
  Index max_chunks = 0;          ///< the largest number of chunks of a rank
  RowRange rows[kMaxGpuRanks];   ///< range that each rank sums, in units
  Index chunks[kMaxGpuRanks]{};  ///< number of chunks of each rank

  [[nodiscard]] TILELACE_HD constexpr SumChunk chunk(int owner, Index i) const {
    const Index begin = rows[owner].begin + i * chunk_units;
    return {owner, i, {begin, min_of(begin + chunk_units, rows[owner].end)}};
  }
  /// With `share`: a rank's flag for the arrival of the owner's sum of chunk i.
  [[nodiscard]] TILELACE_HD constexpr Index flag(int owner, Index i) const {
    return owner * max_chunks + i;
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const {
    return share ? ranks * max_chunks : 0;
  }
};

enum class SumForm : std::uint8_t { own_rows, all_rows, shared_rows };

/// Sets which rank sums which rows. `row_units`: units per row.
constexpr void set_rows(ReduceRows& s, const RowSplit& split, int rank, SumForm form,
                        Index row_units) {
  s.rank = rank;
  s.ranks = split.ranks;
  s.share = form == SumForm::shared_rows;
  for (int r = 0; r < split.ranks; ++r) {
    const RowRange rows = form == SumForm::all_rows ? RowRange{0, split.m} : split.shard(r);
    s.rows[r] = {rows.begin * row_units, rows.end * row_units};
  }
}

/// Cuts each rank's rows into at most kMaxSumChunks chunks. Workers without a chunk are dropped.
constexpr void cut_rows(ReduceRows& s, Index chunk_units, int workers) {
  Index most = 0;
  for (int r = 0; r < s.ranks; ++r) most = max_of(most, s.rows[r].size());
  s.chunk_units = max_of(chunk_units, ceil_div(most, kMaxSumChunks));
  for (int r = 0; r < s.ranks; ++r) s.chunks[r] = ceil_div(s.rows[r].size(), s.chunk_units);
  s.max_chunks = ceil_div(most, s.chunk_units);
  s.workers = static_cast<int>(max_of(1, min_of(workers, s.max_chunks)));
}

/// Units of a chunk of `chunk_rows` rows. If `chunk_rows` is 1, a wide row is cut into equal
/// chunks.
constexpr Index chunk_of_rows(Index chunk_rows, Index row_units) {
  return chunk_rows > 1 ? chunk_rows * row_units
                        : ceil_div(row_units, ceil_div(row_units, kWideUnits));
}

/// Units of a chunk, at least `chunk_units`, such that the busiest rank's `units` are spread evenly
/// over the workers. A last round with work for few workers would take as long as a full round.
constexpr Index even_chunk(Index units, Index chunk_units, int workers) {
  const Index rounds = max_of(1, units / (chunk_units * workers));
  return rounds < kManyRounds ? max_of(chunk_units, ceil_div(units, rounds * workers))
                              : chunk_units;
}

constexpr ReduceRows make_reduce_rows(const RowSplit& split, int rank, SumForm form,
                                      Index row_units, Index chunk_units, int workers) {
  ReduceRows s;
  set_rows(s, split, rank, form, row_units);
  cut_rows(s, chunk_units, workers);
  return s;
}

/// Role `reduce`, worker w of s.workers, after the admission:
///   reduce(chunk)  adds the chunks of all slots in rank order and stores the sum; with `share`, it
///                  also stores the sum at every peer
///   deliver(chunk) copies an owner's sum from the own slot to the user
/// A round reduces an own chunk, then delivers the peers' chunks of the round before, which have
/// probably arrived. A worker waits only for peers' workers of its number, which send first.
template <class Verbs>
TILELACE_ROLE void run_reduce_rows(const ReduceRows& s, int worker, Verbs& v) {
  const auto chunks = static_cast<int>(s.share ? s.max_chunks : s.chunks[s.rank]);
  const int rounds = (chunks + s.workers - 1) / s.workers;  // 64-bit division is slow on GPUs
  for (Index round = 0; round < rounds + (s.share ? 1 : 0); ++round) {
    const Index own = round * s.workers + worker;
    if (own < s.chunks[s.rank]) v.reduce(s.chunk(s.rank, own));
    if (!s.share) continue;
    for (int i = 1; i < s.ranks && own < s.chunks[s.rank]; ++i)
      v.signal((s.rank + i) % s.ranks, s.flag(s.rank, own));
    const Index before = own - s.workers;
    for (int i = 1; i < s.ranks && before >= 0; ++i) {
      const int q = (s.rank + s.ranks - i) % s.ranks;
      if (before < s.chunks[q]) v.wait(s.flag(q, before));
    }
    for (int i = 1; i < s.ranks && before >= 0; ++i) {
      const int q = (s.rank + s.ranks - i) % s.ranks;
      if (before < s.chunks[q]) v.deliver(s.chunk(q, before));
    }
  }
}

/// The same role where copy engines have brought the partials of own rows: the admission is the
/// only wait, and reduce(chunk) adds them in rank order and stores the sum.
template <class Verbs>
TILELACE_ROLE void run_copied_rows(const ReduceRows& s, int worker, Verbs& v) {
  for (Index c = worker; c < s.chunks[s.rank]; c += s.workers) v.reduce(s.chunk(s.rank, c));
}

}  // namespace tilelace::schedule
