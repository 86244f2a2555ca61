// SPDX-License-Identifier: Apache-2.0
#include "sim/actors.h"

#include <fmt/core.h>

namespace tilelace::sim {

std::size_t count_signals(const std::vector<std::vector<StepList>>& lists) {
  std::size_t n = 0;
  for (const auto& rank : lists) {
    for (const StepList& list : rank) {
      for (const Step& s : list) n += s.verb == Verb::signal ? 1 : 0;
    }
  }
  return n;
}

std::string stuck_text(const std::vector<Actor>& actors) {
  for (const Actor& a : actors) {
    if (a.at == a.list->size()) continue;
    const Step& s = (*a.list)[a.at];
    const std::string who = a.lane < 0 ? "copy" : fmt::format("worker {}", a.lane);
    const std::string what = s.verb == Verb::wait    ? fmt::format("flag {}", s.at)
                             : s.verb == Verb::admit ? "headers"
                                                     : "a place to run";
    return fmt::format("rank {} {} at step {} waits for {}", a.rank, who, a.at, what);
  }
  return "";
}

}  // namespace tilelace::sim
