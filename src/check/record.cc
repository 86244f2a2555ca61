// SPDX-License-Identifier: Apache-2.0
#include "check/record.h"

namespace tilelace::check {

std::vector<StepList> record(const CallPlan& plan, int rank) {
  std::vector<StepList> lists(static_cast<std::size_t>(plan.workers()) + 1);
  NoVerbs nothing;
  plan.visit(rank, [&](const auto& schedule) {
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
