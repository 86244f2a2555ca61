// SPDX-License-Identifier: Apache-2.0
#include "check/record.h"

namespace tilelace::check {
namespace {

/// The kernel that sums begins, which comes behind the product: `flag` says so to its workers.
template <class Rows, class Verbs>
void enter(const Rows& s, Index flag, Verbs& v) {
  v.signal(s.rank, flag);
  schedule::signal_headers(s.ranks, s.rank, v);
  v.admit();
}

/// The product, and then the headers.
template <class Rows, class Verbs>
void run_behind(const Rows& s, Index flag, Verbs& v) {
  v.partial(schedule::SumChunk{s.rank, 0, {0, s.rows[s.ranks - 1].end}});
  enter(s, flag, v);
}
template <class Rows, class Verbs>
void run_product(const Rows& s, Verbs& v) {
  run_behind(s, s.num_flags(), v);
}

template <class Verbs>
void run_copy(const schedule::ReduceRows& s, Verbs& v) {
  run_product(s, v);
}
template <class Verbs>
void run_copy(const schedule::PushRows& s, Verbs& v) {
  run_product(s, v);
}

template <class Verbs>
void run_copy(const schedule::HandRows& s, Verbs& v) {
  if (s.way != schedule::HandWay::copied) return run_behind(s, schedule::num_handed_flags(s), v);
  // Copies follow their products, and the kernel follows the copies.
  for (int i = 1; i <= s.ranks; ++i) {
    const int owner = (s.rank + i) % s.ranks;
    v.partial(schedule::SumChunk{owner, 0, s.rows[owner]});
    for (Index c = 0; c < s.chunks[owner] && owner != s.rank; ++c)
      v.store_partial(s.chunk(owner, c), owner);
  }
  enter(s, schedule::num_handed_flags(s), v);
}

/// A worker of the kernel behind the product, which begins when that has ended.
template <class Verbs>
void run_compute(const schedule::ReduceRows& s, int worker, Verbs& v) {
  v.wait(s.num_flags());
  v.admit();
  if (worker < s.workers) schedule::run_reduce_rows(s, worker, v);
}
template <class Verbs>
void run_compute(const schedule::PushRows& s, int worker, Verbs& v) {
  v.wait(s.num_flags());
  worker < s.workers ? schedule::run_push_rows(s, worker, v) : v.admit();
}

template <class Verbs>
void run_compute(const schedule::HandRows& s, int worker, Verbs& v) {
  v.wait(schedule::num_handed_flags(s));
  v.admit();
  if (worker < s.workers) schedule::run_hand_rows(s, worker, v);
}

}  // namespace

std::vector<StepList> record(const CallPlan& plan, int rank) {
  std::vector<StepList> lists(static_cast<std::size_t>(plan.workers()) + 1);
  NoVerbs nothing;
  plan.visit_any(rank, [&](const auto& schedule) {
    for (int i = 0; i <= plan.workers(); ++i) {
      StepList& list = lists[static_cast<std::size_t>(i)];
      const auto note = [&list](const Step& step) { list.push_back(step); };
      NotedVerbs<NoVerbs, decltype(note)> verbs(nothing, note);
      i == 0 ? run_copy(schedule, verbs) : run_compute(schedule, i - 1, verbs);
    }
  });
  return lists;
}

}  // namespace tilelace::check
