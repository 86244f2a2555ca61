// SPDX-License-Identifier: Apache-2.0
#include "check/prepared_calls.h"

#include <algorithm>
#include <utility>

#include "check/mutate.h"

namespace tilelace::check {

PreparedCalls prepare(const CheckConfig& config) {
  PreparedCalls made;
  made.of = config;
  const auto ranks = static_cast<std::size_t>(config.ranks);
  for (std::size_t c = 0; c < config.calls.size(); ++c) {
    const auto same = std::find(config.calls.begin(), config.calls.begin() + c, config.calls[c]);
    const auto first = static_cast<std::size_t>(same - config.calls.begin());
    made.plans.push_back(first < c ? made.plans[first]
                                   : std::make_shared<const CallPlan>(config.calls[c], config.ranks,
                                                                      config.workers));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (first < c) {
        made.lists.push_back(made.lists[first * ranks + rank]);
        continue;
      }
      auto lists = record(*made.plans[c], static_cast<int>(rank));
      made.mutated |= mutate(config.mutant, *made.plans[c], static_cast<int>(rank), lists);
      if (rank == 0 && config.lost >= 0 && config.lost < std::ssize(lists[0])) {
        lists[0].erase(lists[0].begin() + config.lost);
        made.mutated = true;
      }
      made.lists.push_back(std::make_shared<const std::vector<StepList>>(std::move(lists)));
    }
  }
  return made;
}

}  // namespace tilelace::check
