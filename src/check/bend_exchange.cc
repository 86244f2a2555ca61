// SPDX-License-Identifier: Apache-2.0
// Mutants of collectives.
#include <algorithm>
#include <utility>

#include "check/bend.h"
#include "check/lists.h"

namespace tilelace::check {

namespace {

using schedule::ExchangeRound;
using Exchange = schedule::ExchangeOf<kMaxCheckedRanks>;

/// Its places alone are bent.
struct BentExchange : Exchange {
  Mutant mutant = Mutant::none;

  [[nodiscard]] Index term_place(int at, int source, ExchangeRound r) const {
    if (mutant == Mutant::foreign_place && at != rank) {
      source = (source + 1) % ranks;
      if (source == at) source = (source + 1) % ranks;
    }
    return Exchange::term_place(at, source, shorter(r));
  }
  [[nodiscard]] Index sum_place(int at, int owner, ExchangeRound r) const {
    return Exchange::sum_place(at, owner, shorter(r));
  }

 private:
  [[nodiscard]] ExchangeRound shorter(ExchangeRound r) const {
    if (mutant == Mutant::short_ring) r.round %= schedule::kRing - 1;
    return r;
  }
};

/// What is sent in a round goes before what is taken in the round before.
bool send_ahead(StepList& list) {
  StepList sends;
  std::copy_if(list.begin(), list.end(), std::back_inserter(sends),
               [](const Step& s) { return s.verb == Verb::push; });
  if (sends.empty()) return false;
  StepList bent;
  auto next = sends.begin();
  for (const Step& s : list) {
    if (s.verb != Verb::push) {
      bent.push_back(s);
      continue;
    }
    for (; next != sends.end() && next->block <= s.block + 1; ++next) bent.push_back(*next);
  }
  const bool changed = bent != list;
  list = std::move(bent);
  return changed;
}

/// Flags of rounds in which there is nothing behind them.
bool erase_empty_rounds(const Exchange& s, StepList& list, bool waits) {
  return std::erase_if(list, [&](const Step& x) {
           const bool raised = x.verb == Verb::signal && x.peer >= 0;
           if (!raised && (!waits || x.verb != Verb::wait)) return false;
           const schedule::ExchangeFlag f = s.flag_meaning(x.at);
           if (f.sums) return false;
           return f.round.round >= s.rounds_of(raised ? s.sends[x.peer] : s.takes[f.rank]);
         }) > 0;
}

/// Reads of the second term before the first.
bool swap_terms(StepList& list) {
  const auto is_term = [](const Step& s) { return s.verb == Verb::reduce; };
  const auto first = std::find_if(list.begin(), list.end(), is_term);
  if (first == list.end()) return false;
  const auto second = std::find_if(std::next(first), list.end(), is_term);
  if (second == list.end() || second->peer <= first->peer) return false;
  std::swap(*first, *second);
  return true;
}

bool erase_last_transfer(StepList& list) {
  const auto at = std::find_if(list.rbegin(), list.rend(),
                               [](const Step& s) { return schedule::is_transfer(s.verb); });
  if (at == list.rend()) return false;
  list.erase(std::next(at).base());
  return true;
}

bool forget_epoch(StepList& list) {
  const auto at = std::find_if(list.begin(), list.end(),
                               [](const Step& s) { return s.verb == Verb::put_line; });
  if (at == list.end()) return false;
  at->verb = Verb::store_partial;
  return true;
}

/// Where parcels go to the results themselves, no place is used again. Sums that come back say that
/// their terms are taken, a step earlier than terms do.
bool bend_list(Mutant mutant, const Exchange& s, StepList& list) {
  if (mutant == Mutant::send_ahead) return !s.direct && !s.shares && send_ahead(list);
  if (mutant == Mutant::lost_last_chunk) return erase_last_transfer(list);
  if (mutant == Mutant::short_pair) return erase_empty_rounds(s, list, false);
  if (mutant == Mutant::unmatched_rounds) return !s.direct && erase_empty_rounds(s, list, true);
  if (mutant == Mutant::sum_out_of_order) return swap_terms(list);
  return mutant == Mutant::line_without_epoch && forget_epoch(list);
}

}  // namespace

bool bend_exchange(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists) {
  if (!plan.spec().exchange) return false;
  const ExchangeCall& call = plan.exchange(rank);
  if (mutant == Mutant::line_at_least) return call.lines;  // the explorer does it
  if (mutant == Mutant::short_ring || mutant == Mutant::foreign_place) {
    const BentExchange s{call.schedule, mutant};
    auto bent = exchange_lists(plan.workers(), s, call);
    const bool changed = bent != lists;
    lists = std::move(bent);
    return changed;
  }
  bool changed = false;
  for (StepList& list : lists) changed |= bend_list(mutant, call.schedule, list);
  return changed;
}

}  // namespace tilelace::check
