// SPDX-License-Identifier: Apache-2.0
#include "check/record.h"

namespace tilelace::check {
namespace {

/// The product, and then the headers: those of the kernel that sums, which comes behind it.
template <class Rows, class Verbs>
void run_product(const Rows& s, Verbs& v) {
  v.partial(schedule::SumChunk{s.rank, 0, {0, s.rows[s.ranks - 1].end}});
  v.signal(s.rank, s.num_flags());
  schedule::signal_headers(s.ranks, s.rank, v);
  v.admit();
}

template <class Verbs>
void run_copy(const schedule::ReduceRows& s, Verbs& v) {
  run_product(s, v);
}
template <class Verbs>
void run_copy(const schedule::PushRows& s, Verbs& v) {
  run_product(s, v);
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
