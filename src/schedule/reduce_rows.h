// SPDX-License-Identifier: Apache-2.0
// The sum after the GEMM: gemm_rs and gemm_ar on path `unfused` of GPU ranks. Every rank's partial
// [m, n] is in its slot; a rank pulls the rows that it needs from all slots. Three forms:
//
//   gemm_rs             a rank sums the rows of its shard
//   gemm_ar, one-shot   a rank sums all rows
//   gemm_ar, two-shot   a rank sums its rows and stores the sum at every peer (`share`), in the
//                       peer's slot in place of its partial for these rows: only the rank that
//                       sums a chunk reads that partial, so the place is free
//
// Units are 16 bytes; rows are contiguous. The header of a call is sent after the GEMM and says
// that the partial is there, so admission is the only wait before pulling. A rank overwrites its
// partial in call c + 2, after the headers of call c + 1, which peers send when they have pulled
// for call c.
#pragma once
#include "schedule/rows.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// The most chunks of a shard that a slot has flags for.
constexpr Index kMaxSumChunks = 1024;
/// Units of a row that stay together if a chunk is less than a row.
constexpr Index kWideUnits = 512;
/// From this many rounds on chunks are not evened.
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
  Index max_chunks = 0;          ///< the most chunks of any rank
  RowRange rows[kMaxGpuRanks];   ///< range that each rank sums, in units
  Index chunks[kMaxGpuRanks]{};  ///< number of chunks of each rank

  [[nodiscard]] TILELACE_HD constexpr SumChunk chunk(int owner, Index i) const {
    const Index begin = rows[owner].begin + i * chunk_units;
    return {owner, i, {begin, min_of(begin + chunk_units, rows[owner].end)}};
  }
  /// If rows are shared: the flag on a rank that says that the owner's sum of a chunk has arrived.
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

/// Cuts the rows into at most kMaxSumChunks chunks. Workers without a chunk are dropped.
constexpr void cut_rows(ReduceRows& s, Index chunk_units, int workers) {
  Index most = 0;
  for (int r = 0; r < s.ranks; ++r) most = max_of(most, s.rows[r].size());
  s.chunk_units = max_of(chunk_units, ceil_div(most, kMaxSumChunks));
  for (int r = 0; r < s.ranks; ++r) s.chunks[r] = ceil_div(s.rows[r].size(), s.chunk_units);
  s.max_chunks = ceil_div(most, s.chunk_units);
  s.workers = static_cast<int>(max_of(1, min_of(workers, s.max_chunks)));
}

/// Units of a chunk of `chunk_rows` rows; if that is 1, a chunk of a wide row is an even part of
/// it.
constexpr Index chunk_of_rows(Index chunk_rows, Index row_units) {
  return chunk_rows > 1 ? chunk_rows * row_units
                        : ceil_div(row_units, ceil_div(row_units, kWideUnits));
}

/// Units of a chunk, at least `chunk_units`, so that all workers have as many of the busiest rank's
/// `units`: a last round that few of them have takes as long as a whole one.
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
///   reduce(chunk)  adds the chunk of all slots in rank order and stores it, with `share` at every
///                  peer too
///   deliver(chunk) an owner's sum, from the own slot to the user
/// Own chunks first; peers' chunks one round later, when they have probably arrived. A worker only
/// waits for the worker of the same number, which sends before it waits.
template <class Verbs>
TILELACE_ROLE void run_reduce_rows(const ReduceRows& s, int worker, Verbs& v) {
  const auto chunks = static_cast<int>(s.share ? s.max_chunks : s.chunks[s.rank]);
  const int rounds = (chunks + s.workers - 1) / s.workers;  // 32 bits: GPUs divide 64 slowly
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

}  // namespace tilelace::schedule
