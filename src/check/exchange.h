// SPDX-License-Identifier: Apache-2.0
// A collective (schedule/exchange.h) as the checker sees it: what each round reads and writes.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/memory.h"
#include "schedule/exchange.h"
#include "tilelace/collectives.h"

namespace tilelace::check {

constexpr int kMaxCheckedRanks = 64;

struct ExchangeSpec {
  Collective collective = {};
  /// Numbers of units: in the tensor (all_reduce), in each rank's part (all_gather,
  /// reduce_scatter), or in each parcel, at index sender * ranks + receiver (all_to_all).
  std::vector<std::int64_t> units;
  int shots = 1;
  int workers = 1;
  std::int64_t chunk = 1;  ///< size of a chunk in units
  bool direct = false;     ///< no staging; not for lines, one-shot or an uneven all_to_all
  bool lines = false;      ///< each unit carries the call's epoch, so there are no flags
  bool in_place = false;

  bool operator==(const ExchangeSpec&) const = default;
};

std::string to_string(const ExchangeSpec&);
/// The reason why this spec has no schedule; nullopt if it has one.
std::optional<std::string> legal(const ExchangeSpec&, int ranks);

/// One rank's part of a collective.
struct ExchangeCall {
  schedule::ExchangeOf<kMaxCheckedRanks> schedule;
  bool lines = false, in_place = false;
  Index in_units = 0, out_units = 0;
  std::array<Index, kMaxCheckedRanks> in_at{}, out_at{};  ///< a parcel's first unit in `in`, `out`

  /// Number of units of this rank's result that come from rank `from`.
  [[nodiscard]] Index result_units(int from) const {
    return schedule.shares ? schedule.owned[from] : schedule.takes[from];
  }
};

/// Makes the schedule and places the parcels as real calls do.
ExchangeCall make_exchange(const ExchangeSpec&, int rank, int ranks);

FlagName flag_name(const ExchangeCall&, Index flag);

inline RowRange from(Index begin, RowRange rows) { return {begin, begin + rows.size()}; }

/// Verbs that note the steps of a round, parcel by parcel. In a Step, `at` is the data's first unit
/// in the staging memory or, without staging, in `in` or `out`. `rows` are units of `in` or `out`;
/// `block` is the round or, with lines, the shot. Noted verbs are push, reduce (a term of a sum),
/// store, store_result (a sum to a peer), deliver and, with lines, put_line and take_line.
template <class S, class Verbs, class Note>
class NotedExchange : public NotedVerbs<Verbs, Note> {
 public:
  using Base = NotedVerbs<Verbs, Note>;
  using Round = schedule::ExchangeRound;

  NotedExchange(const S& s, const ExchangeCall& call, Verbs& verbs, Note note)
      : Base(verbs, note), s_(s), call_(call), verbs_(verbs), note_(note) {}

  void signal(int peer, Index flag) {
    if (!call_.lines) Base::signal(peer, flag);
  }
  void wait(Index flag) {
    if (call_.lines) return;
    Base::wait(flag);
    if (s_.direct) find_results(s_.flag_meaning(flag));
  }
  void send(Round r) {
    for (int i = 1; i < s_.ranks; ++i) {
      const int q = (s_.rank + i) % s_.ranks;
      const RowRange rows = s_.part(r, s_.sends[q]);
      if (rows.size() == 0) continue;
      const Index at =
          s_.direct ? out_at(s_.rank) + rows.begin : Index{s_.term_place(q, s_.rank, r)};
      note(call_.lines ? Verb::put_line : Verb::push, q, s_.rank, r, 0, at,
           from(in_at(q) + rows.begin, rows));
    }
    verbs_.send(r);
  }
  void take(Round r) {
    s_.sums ? add(r) : accept(r);
    verbs_.take(r);
  }
  void deliver(Round r) {
    for (int p = 0; p < s_.ranks; ++p) {
      const RowRange rows = s_.part(r, s_.owned[p]);
      if (p == s_.rank || rows.size() == 0) continue;
      collect(Verb::deliver, p, p, r, 1, s_.sum_place(s_.rank, p, r),
              from(out_at(p) + rows.begin, rows));
    }
    verbs_.deliver(r);
  }

 private:
  [[nodiscard]] Index in_at(int q) const { return call_.in_at[static_cast<std::size_t>(q)]; }
  [[nodiscard]] Index out_at(int q) const { return call_.out_at[static_cast<std::size_t>(q)]; }
  /// Notes the data that a peer's worker has stored directly in this rank's result.
  void find_results(const schedule::ExchangeFlag& f) {
    const Index units = s_.sums && !s_.shares ? 0 : call_.result_units(f.rank);
    for (Index round = 0; round < s_.rounds_of(units); ++round) {
      const Round r{f.round.worker, round};
      const RowRange part = s_.part(r, units);
      const RowRange rows = from(out_at(f.rank) + part.begin, part);
      if (rows.size() > 0) note(Verb::deliver, f.rank, f.rank, r, 0, rows.begin, rows);
    }
  }
  void note(Verb verb, int peer, int owner, Round r, int shot, Index at, RowRange rows) {
    note_(Step{verb, peer, owner, call_.lines ? shot : static_cast<int>(r.round), at, rows, -1});
  }
  /// Notes the use of a peer's data. With lines, first notes that the lines have been taken.
  void collect(Verb verb, int peer, int owner, Round r, int shot, Index at, RowRange rows) {
    if (call_.lines) note(Verb::take_line, peer, owner, r, shot, at, rows);
    note(verb, peer, owner, r, shot, at, rows);
  }
  void add(Round r) {
    const RowRange part = s_.part(r, s_.takes[s_.rank]);
    if (part.size() == 0) return;
    const RowRange rows = from(out_at(s_.rank) + part.begin, part);
    for (int p = 0; p < s_.ranks; ++p) {
      if (p == s_.rank)
        note(Verb::reduce, p, s_.rank, r, 0, in_at(p) + part.begin, rows);
      else
        collect(Verb::reduce, p, s_.rank, r, 0,
                s_.direct ? in_at(s_.rank) + part.begin : s_.term_place(s_.rank, p, r), rows);
    }
    note(Verb::store, -1, s_.rank, r, 0, -1, rows);
    for (int i = 1; i < s_.ranks && s_.shares; ++i) {
      const int q = (s_.rank + i) % s_.ranks;
      note(call_.lines ? Verb::put_line : Verb::store_result, q, s_.rank, r, 1,
           s_.direct ? rows.begin : s_.sum_place(q, s_.rank, r), rows);
    }
  }
  void accept(Round r) {
    for (int p = 0; p < s_.ranks; ++p) {
      const RowRange part = s_.part(r, s_.takes[p]);
      if (part.size() == 0) continue;
      const RowRange rows = from(out_at(p) + part.begin, part);
      if (p == s_.rank)
        note(Verb::deliver, p, p, r, 0, in_at(p) + part.begin, rows);
      else if (!s_.direct)
        collect(Verb::deliver, p, p, r, 0, s_.term_place(s_.rank, p, r), rows);
    }
  }

  const S& s_;
  const ExchangeCall& call_;
  Verbs& verbs_;
  Note note_;
};

/// Actor 0 sends the rank's headers and then admits (waits for the peers' headers). Actors 1 to
/// s.workers run the exchange. Other actors only admit.
template <class S, class Verbs>
void run_exchange_actor(const S& s, int actor, Verbs& v) {
  if (actor == 0) schedule::signal_headers(s.ranks, s.rank, v);
  if (actor == 0 || actor > s.workers) return v.admit();
  schedule::run_exchange(s, actor - 1, v);
}

/// Emits a read of these rows of a rank's `in`. If the call is in place, also emits a read of the
/// result's rows in the same memory.
template <class Emit>
void each_input(const ExchangeCall& c, int rank, RowRange rows, Emit&& emit) {
  emit(Access{Region::in, rank, rows, 0, 1, false});
  if (!c.in_place) return;
  const auto& s = c.schedule;
  const auto at = static_cast<std::size_t>(rank);
  const Index shift = c.out_at[at] - c.in_at[at];
  const Index units = rank == s.rank || s.shares ? c.out_units : s.sends[rank];
  const RowRange there = schedule::intersect({rows.begin + shift, rows.end + shift}, {0, units});
  if (there.size() > 0) emit(Access{Region::out, rank, there, 0, 1, false, -1, -1, true});
}

template <class Emit>
void each_access(const ExchangeCall& c, const Step& x, Emit&& emit) {
  const int rank = c.schedule.rank;
  const RowRange place = from(x.at, x.rows);
  const auto staged = [&](int at, bool write) {
    emit(Access{Region::incoming, at, place, 0, 1, write, x.block, write ? -1 : x.peer});
  };
  const auto out = [&](int at, RowRange rows, bool write) {
    emit(Access{Region::out, at, rows, 0, 1, write, -1, write ? -1 : x.peer});
  };
  const auto come = [&] {
    if (x.peer == rank) return each_input(c, rank, place, emit);
    if (c.lines) return;
    if (!c.schedule.direct) return staged(rank, false);
    x.verb == Verb::reduce ? each_input(c, x.peer, place, emit) : out(rank, x.rows, false);
  };
  switch (x.verb) {
    case Verb::push:
      each_input(c, rank, x.rows, emit);
      c.schedule.direct ? out(x.peer, place, true) : staged(x.peer, true);
      break;
    case Verb::store_partial:  // only in mutants: a line without its epoch
    case Verb::put_line:
      if (x.block == 0) each_input(c, rank, x.rows, emit);
      emit(Access{Region::lines, x.peer, place, 0, 1, true});
      break;
    case Verb::take_line: emit(Access{Region::lines, rank, place, 0, 1, false, -1, x.peer}); break;
    case Verb::reduce: come(); break;
    case Verb::store: out(rank, x.rows, true); break;
    case Verb::store_result:
      c.schedule.direct ? out(x.peer, x.rows, true) : staged(x.peer, true);
      break;
    case Verb::deliver:
      come();
      if (!c.schedule.direct || x.peer == rank) out(rank, x.rows, true);
      break;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::stage:
    case Verb::pull:
    case Verb::partial:
    case Verb::park:
    case Verb::unpark:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result: break;
  }
}

}  // namespace tilelace::check
