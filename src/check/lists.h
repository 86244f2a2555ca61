// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "check/exchange.h"
#include "check/step.h"

namespace tilelace::check {

/// Records the steps of every actor of a rank in a call. `run(actor, verbs)` calls the verbs. Actor
/// 0 is the copy role, the others are the workers.
template <class Run>
std::vector<StepList> lists_of(int workers, Run run) {
  std::vector<StepList> lists(static_cast<std::size_t>(workers) + 1);
  NoVerbs nothing;
  for (int i = 0; i <= workers; ++i) {
    StepList& list = lists[static_cast<std::size_t>(i)];
    list.reserve(i > 1 ? lists[static_cast<std::size_t>(i) - 1].size() + 1
                       : 32);  // roughly as long as the list before
    const auto note = [&list](const Step& step) { list.push_back(step); };
    NotedVerbs<NoVerbs, decltype(note)> verbs(nothing, note);
    run(i, verbs);
  }
  return lists;
}

/// The same for a collective with schedule s, which a mutant may have changed.
template <class S>
std::vector<StepList> exchange_lists(int workers, const S& s, const ExchangeCall& call) {
  std::vector<StepList> lists(static_cast<std::size_t>(workers) + 1);
  NoVerbs nothing;
  for (int i = 0; i <= workers; ++i) {
    StepList& list = lists[static_cast<std::size_t>(i)];
    const auto note = [&list](const Step& step) { list.push_back(step); };
    NotedExchange<S, NoVerbs, decltype(note)> verbs(s, call, nothing, note);
    run_exchange_actor(s, i, verbs);
  }
  return lists;
}

}  // namespace tilelace::check
