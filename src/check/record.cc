// SPDX-License-Identifier: Apache-2.0
#include "check/record.h"

#include <type_traits>

#include "check/lists.h"

namespace tilelace::check {
namespace {

/// The kernel that sums begins, which comes behind the product: the last flag says so to its
/// workers.
template <class Verbs>
void enter(const schedule::ReduceRows& s, Verbs& v) {
  v.signal(s.rank, s.num_flags());
  schedule::signal_headers(s.ranks, s.rank, v);
  v.admit();
}

/// The product, and then the headers.
template <class Verbs>
void run_copy(const schedule::ReduceRows& s, Verbs& v) {
  v.partial(schedule::SumChunk{s.rank, 0, {0, s.rows[s.ranks - 1].end}});
  enter(s, v);
}
/// Copies follow their products, and the kernel follows the copies.
template <class Verbs>
void run_copy(const CopiedRows& s, Verbs& v) {
  for (int i = 1; i <= s.ranks; ++i) {
    const int owner = (s.rank + i) % s.ranks;
    v.partial(schedule::SumChunk{owner, 0, s.rows[owner]});
    for (Index c = 0; c < s.chunks[owner] && owner != s.rank; ++c)
      v.store_partial(s.chunk(owner, c), owner);
  }
  enter(s, v);
}

/// A worker of the kernel behind the product, which begins when that has ended.
template <class Verbs>
void run_compute(const schedule::ReduceRows& s, int worker, Verbs& v) {
  v.wait(s.num_flags());
  v.admit();
  if (worker < s.workers) schedule::run_reduce_rows(s, worker, v);
}
template <class Verbs>
void run_compute(const CopiedRows& s, int worker, Verbs& v) {
  v.wait(s.num_flags());
  v.admit();
  if (worker < s.workers) schedule::run_copied_rows(s, worker, v);
}

/// Roles of a CTA whose rank keeps its partials, as verbs of lists. A count that each rank adds one
/// to, at all ranks, is a flag a rank here, raised at all ranks: all of them are awaited.
template <class Verbs>
class SwitchedVerbs {
 public:
  SwitchedVerbs(const schedule::TileSums& tiles, Verbs& verbs) : s_(tiles), v_(verbs) {}

  void admit() { v_.admit(); }
  void skip(schedule::GemmSegment /*s*/) {}
  void multiply(schedule::GemmSegment s) { tile_ = s.tile; }
  void give(schedule::GemmCell c) {
    v_.compute(rows(tile_, c));
    v_.partial(rows(tile_, c));
  }
  void tell_given(int tile) { tell(schedule::given_count(tile)); }
  void await_given(int tile) { await(schedule::given_count(tile)); }
  void reduce(int tile, schedule::GemmCell c) {
    const SwitchedRows share{s_.rank, tile, s_.share(c, s_.rank), c.col};
    if (share.rows.size() > 0) v_.reduce(share);
  }
  void tell_summed(int tile) {
    if (!s_.one_shot) tell(schedule::summed_count(tile));
  }
  void await_summed(int tile) {
    if (!s_.one_shot) await(schedule::summed_count(tile));
  }
  void deliver(int tile, schedule::GemmCell c) {
    if (!s_.direct && !s_.one_shot) v_.deliver(rows(tile, c));
  }

 private:
  [[nodiscard]] SwitchedRows rows(int tile, schedule::GemmCell c) const {
    return {s_.rank, tile, s_.rows(c), c.col};
  }
  [[nodiscard]] Index word(int count, int of) const { return Index{count} * s_.ranks + of; }
  void tell(int count) {
    for (int i = 1; i <= s_.ranks; ++i) v_.signal((s_.rank + i) % s_.ranks, word(count, s_.rank));
  }
  void await(int count) {
    for (int i = 1; i <= s_.ranks; ++i) v_.wait(word(count, (s_.rank + i) % s_.ranks));
  }

  const schedule::TileSums& s_;
  Verbs& v_;
  int tile_ = 0;
};

template <class Verbs>
void run_copy(const schedule::TileSums& s, Verbs& v) {
  schedule::signal_headers(s.ranks, s.rank, v);
  v.admit();
}
/// Of each CTA one math group, then the other, then the warps that sum. Two workers have one math
/// group; one alone is all of it, one after the other.
template <class Verbs>
void run_compute(const schedule::TileSums& s, int worker, Verbs& v) {
  SwitchedVerbs<Verbs> verbs{s, v};
  const int lanes = s.actors < kRolesOfSwitched ? 1 : 2;
  const int role = worker / s.work.workers;
  const int cta = worker % s.work.workers;
  if (role < lanes)
    schedule::sum_last(s.work, schedule::run_sums_math(s.work, cta, role, lanes, verbs), verbs);
  if (role == lanes || s.actors == 1) schedule::run_sums_reduce(s.work, cta, lanes, verbs);
}

}  // namespace

std::vector<StepList> record(const CallPlan& plan, int rank) {
  if (plan.spec().exchange) {
    const ExchangeCall& call = plan.exchange(rank);
    return exchange_lists(plan.workers(), call.schedule, call);
  }
  return plan.visit_any(rank, [&]<class S>(const S& schedule) -> std::vector<StepList> {
    if constexpr (!std::is_same_v<S, ExchangeCall>)
      return lists_of(plan.workers(), [&](int i, auto& verbs) {
        i == 0 ? run_copy(schedule, verbs) : run_compute(schedule, i - 1, verbs);
      });
    return {};
  });
}

}  // namespace tilelace::check
