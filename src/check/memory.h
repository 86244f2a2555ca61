// SPDX-License-Identifier: Apache-2.0
// What each verb reads and writes, defined once for the explorer and for the CPU backend's checked
// mode.
#pragma once
#include "check/step.h"

namespace tilelace::check {

/// Regions of a rank's memory. `gathered` to `lines` are in the call's slot; others are the user's.
enum class Region : std::uint8_t {
  gathered,
  outgoing,
  incoming,
  result,
  lines,
  out,
  delivered,
  in
};
constexpr int kRegions = 8;
constexpr bool in_slot(Region r) { return r <= Region::lines; }
std::string_view name_of(Region);

/// `rows` x columns [col_begin, col_end) of a region of rank `owner`. Regions `gathered` and
/// `delivered` have one column; rows of region `incoming` are the schedule's incoming rows.
struct Access {
  Region region = Region::out;
  int owner = 0;
  RowRange rows;
  Index col_begin = 0;
  Index col_end = 1;
  bool write = false;
  Index round = -1;    ///< the round, for a place that later rounds write again; else -1
  int source = -1;     ///< rank whose data must be in the place; -1: any
  bool input = false;  ///< a read of the user's input that results will overwrite
};

template <class Emit>
void each_access(const schedule::AgGemm& s, const Step& x, Emit&& emit) {
  const auto gathered = [&](int rank, RowRange rows, bool write) {
    if (rows.size() > 0) emit(Access{Region::gathered, rank, rows, 0, 1, write});
  };
  const RowRange own = s.split.shard(s.rank);
  switch (x.verb) {
    case Verb::stage: gathered(s.rank, x.rows, true); break;
    case Verb::push:
      if (x.owner != s.rank) gathered(s.rank, x.rows, false);
      gathered(x.peer, x.rows, true);
      break;
    case Verb::pull:
      gathered(x.peer, x.rows, false);
      gathered(s.rank, x.rows, true);
      break;
    case Verb::deliver:
      if (x.owner != s.rank) gathered(s.rank, x.rows, false);
      emit(Access{Region::delivered, s.rank, x.rows, 0, 1, true});
      break;
    case Verb::compute:
      gathered(s.rank, {x.rows.begin, schedule::min_of(x.rows.end, own.begin)}, false);
      gathered(s.rank, {schedule::max_of(x.rows.begin, own.end), x.rows.end}, false);
      break;
    case Verb::store: emit(Access{Region::out, s.rank, x.rows, x.col, x.col + 1, true}); break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::reduce:
    case Verb::partial:
    case Verb::store_partial:
    case Verb::store_result:
    case Verb::park:
    case Verb::unpark:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::put_line:
    case Verb::take_line: break;
  }
}

/// If tiles run over the rows of all shards (`whole`), a tile reads own rows from the slot, too.
template <class Order, class Emit>
void each_access(const schedule::GatherTiles<Order>& s, const Step& x, Emit&& emit) {
  if (x.verb == Verb::compute && s.walked() && s.order().whole)
    return emit(Access{Region::gathered, s.rank, x.rows, 0, 1, false});
  each_access(static_cast<const schedule::AgGemm&>(s), x, emit);
}

/// The rows of `incoming` at `rank` for the partials that `child` sends to `rank` in step x.
inline RowRange incoming_rows(const schedule::GemmReduce& s, int rank, int child, const Step& x) {
  schedule::GemmReduce at = s;
  at.rank = rank;
  const Index begin = at.incoming_row(child, x.block, x.owner, x.rows.begin);
  return {begin, begin + x.rows.size()};
}

template <class Emit>
void each_access(const schedule::GemmReduce& s, const Step& x, Emit&& emit) {
  const Index first = x.col >= 0 ? x.col : 0;
  const Index last = x.col >= 0 ? x.col + 1 : s.cols;
  const auto touch = [&](Region region, int rank, RowRange rows, bool write) {
    emit(Access{region, rank, rows, first, last, write});
  };
  switch (x.verb) {
    case Verb::partial: touch(Region::outgoing, s.rank, x.rows, true); break;
    case Verb::send_partial: touch(Region::outgoing, s.rank, x.rows, false); [[fallthrough]];
    case Verb::store_partial:
      touch(Region::incoming, x.peer, incoming_rows(s, x.peer, s.rank, x), true);
      break;
    case Verb::fetch_partial:
      touch(Region::outgoing, x.peer, x.rows, false);
      touch(Region::incoming, s.rank, incoming_rows(s, s.rank, x.peer, x), true);
      break;
    case Verb::reduce:
      for (int p = 0; p < s.ranks(); ++p) {
        if (!s.route.is_child(x.owner, s.rank, p)) continue;
        touch(Region::incoming, s.rank, incoming_rows(s, s.rank, p, x), false);
      }
      break;
    case Verb::store:
      touch(Region::out, s.rank, x.rows, true);
      if (s.all_reduce) touch(Region::result, s.rank, x.rows, true);
      break;
    case Verb::send_result: touch(Region::result, s.rank, x.rows, false); [[fallthrough]];
    case Verb::store_result: touch(Region::result, x.peer, x.rows, true); break;
    case Verb::fetch_result:
      touch(Region::result, x.peer, x.rows, false);
      touch(Region::result, s.rank, x.rows, true);
      break;
    case Verb::deliver:
      touch(Region::result, s.rank, x.rows, false);
      touch(Region::out, s.rank, x.rows, true);
      break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::stage:
    case Verb::push:
    case Verb::pull:
    case Verb::park:
    case Verb::unpark:
    case Verb::put_line:
    case Verb::take_line: break;
  }
}

/// Here each numbered partial is one row of `incoming`, and the number is the row.
template <class Order, class Emit>
void each_access(const schedule::ReduceTiles<Order>& s, const Step& x, Emit&& emit) {
  const auto place = [&](int rank, Index number, bool write) {
    emit(Access{Region::incoming, rank, {number, number + 1}, 0, 1, write});
  };
  if (s.numbered() && x.verb == Verb::store_partial) return place(x.peer, x.at, true);
  if (!s.numbered() || x.verb != Verb::reduce)
    return each_access(static_cast<const schedule::GemmReduce&>(s), x, emit);
  for (Index p = 0; p < s.ranks(); ++p)
    if (p != s.rank) place(s.rank, x.at + (p - s.rank) * s.of_source(), false);
}

/// Place of `rows`, a part of `own`, in area number `place` (from 0); areas have own.size() rows.
inline RowRange placed(RowRange own, Index place, RowRange rows) {
  const Index begin = place * own.size() + rows.begin - own.begin;
  return {begin, begin + rows.size()};
}

/// Where `incoming` at `rank`, which sums these rows, holds the terms of `source`.
inline RowRange shared_rows(const schedule::SharedTiles& s, int rank, int source, RowRange rows) {
  return placed(s.shard(rank), source < rank ? source : source - 1, rows);
}

template <class Emit>
void each_access(const schedule::SharedTiles& s, const Step& x, Emit&& emit) {
  const schedule::ShareOrder& o = s.order();
  const auto touch = [&](Region region, int rank, RowRange rows, bool write) {
    emit(Access{region, rank, rows, x.col, x.col + 1, write});
  };
  switch (x.verb) {
    case Verb::store_partial:
      touch(Region::incoming, x.peer, shared_rows(s, x.peer, o.rank, x.rows), true);
      break;
    case Verb::reduce:
      for (int p = 0; p < o.ranks; ++p)
        if (p != o.rank) touch(Region::incoming, o.rank, shared_rows(s, o.rank, p, x.rows), false);
      break;
    case Verb::store: touch(Region::out, o.rank, x.rows, true); break;
    case Verb::store_result: touch(Region::result, x.peer, x.rows, true); break;
    case Verb::deliver:
      touch(Region::result, o.rank, x.rows, false);
      touch(Region::out, o.rank, x.rows, true);
      break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::stage:
    case Verb::push:
    case Verb::pull:
    case Verb::partial:
    case Verb::park:
    case Verb::unpark:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::put_line:
    case Verb::take_line: break;
  }
}

/// Reduce reads the partials in all slots. It stores one-shot sums in this rank's `out`. It stores
/// two-shot sums on all ranks, in slots or, if `direct`, in `out`. Sums in a slot replace the
/// partials there; the checker has a region of its own for sums, as for ReduceRows below.
template <class Emit>
void each_access(const schedule::TileSums& s, const Step& x, Emit&& emit) {
  const auto touch = [&](Region region, int rank, bool write) {
    emit(Access{region, rank, x.rows, x.col, x.col + 1, write});
  };
  switch (x.verb) {
    case Verb::partial: touch(Region::outgoing, s.rank, true); break;
    case Verb::reduce:
      for (int p = 0; p < s.ranks; ++p) touch(Region::outgoing, p, false);
      if (s.one_shot) return touch(Region::out, s.rank, true);
      for (int p = 0; p < s.ranks; ++p) touch(s.direct ? Region::out : Region::result, p, true);
      break;
    case Verb::deliver:
      touch(Region::result, s.rank, false);
      touch(Region::out, s.rank, true);
      break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::store:
    case Verb::stage:
    case Verb::push:
    case Verb::pull:
    case Verb::store_partial:
    case Verb::store_result:
    case Verb::park:
    case Verb::unpark:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::put_line:
    case Verb::take_line: break;
  }
}

/// Shared sums replace partials in memory. The checker allows one write per cell, so it has a
/// region for sums. No race is missed, since only a sum's writer reads the partials it replaces.
template <class Emit>
void each_access(const schedule::ReduceRows& s, const Step& x, Emit&& emit) {
  const auto touch = [&](Region region, int rank, bool write) {
    emit(Access{region, rank, x.rows, 0, 1, write});
  };
  switch (x.verb) {
    case Verb::partial: touch(Region::outgoing, s.rank, true); break;
    case Verb::reduce:
      for (int p = 0; p < s.ranks; ++p) touch(Region::outgoing, p, false);
      touch(Region::out, s.rank, true);
      for (int p = 0; p < s.ranks && s.share; ++p)
        if (p != s.rank) touch(Region::result, p, true);
      break;
    case Verb::deliver:
      touch(Region::result, s.rank, false);
      touch(Region::out, s.rank, true);
      break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::store:
    case Verb::stage:
    case Verb::push:
    case Verb::pull:
    case Verb::store_partial:
    case Verb::store_result:
    case Verb::park:
    case Verb::unpark:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::put_line:
    case Verb::take_line: break;
  }
}

/// Where `incoming` at `rank` holds these units of the partial of `source`.
inline RowRange copied_rows(const CopiedRows& s, int rank, int source, RowRange units) {
  return placed(s.rows[rank], (source + s.ranks - rank) % s.ranks - 1, units);
}

/// Here reduce reads the own partial and what copy engines have brought.
template <class Emit>
void each_access(const CopiedRows& s, const Step& x, Emit&& emit) {
  const auto touch = [&](Region region, int rank, RowRange rows, bool write) {
    emit(Access{region, rank, rows, 0, 1, write});
  };
  if (x.verb == Verb::store_partial) {
    touch(Region::outgoing, s.rank, x.rows, false);
    return touch(Region::incoming, x.peer, copied_rows(s, x.peer, s.rank, x.rows), true);
  }
  if (x.verb != Verb::reduce)
    return each_access(static_cast<const schedule::ReduceRows&>(s), x, emit);
  touch(Region::outgoing, s.rank, x.rows, false);
  for (int p = 0; p < s.ranks; ++p)
    if (p != s.rank) touch(Region::incoming, s.rank, copied_rows(s, s.rank, p, x.rows), false);
  touch(Region::out, s.rank, x.rows, true);
}

}  // namespace tilelace::check
