// SPDX-License-Identifier: Apache-2.0
#include "check/mutate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "check/bend.h"
#include "tilelace/transport_table.h"

namespace tilelace::check {

namespace {

struct Entry {
  std::string_view name, text;
};
constexpr std::array<Entry, static_cast<std::size_t>(Mutant::kCount)> kEntries = {{
    {"none", "the protocol as it is"},
    {"equal_for_at_least", "waits compare == instead of >="},
    {"stale_epoch", "flag waits accept the value of the slot's previous call"},
    {"stale_header", "admit accepts the previous call's headers"},
    {"unsigned_compare", "waits compare unsigned, so the count may not wrap"},
    {"one_slot", "staging memory is not doubled"},
    {"one_flag_set", "flags are not doubled with the slots"},
    {"send_before_consumption", "the copy role starts a call before the rank ended the last one"},
    {"waiters_before_senders", "workers are launched first and fill every place"},
    {"no_wait", "workers wait for no flag"},
    {"short_wait", "of several flags only the first is waited for"},
    {"wrong_flag", "workers wait for the flag of the step before"},
    {"early_signal", "the flag is raised before its data is there"},
    {"lost_signal", "the last flag of a role is not raised"},
    {"doubled_signal", "the first flag of a role is raised twice"},
    {"signal_to_wrong_peer", "the first flag of a role is raised at another rank"},
    {"lost_chunk", "the first chunk of a role is not moved"},
    {"doubled_chunk", "the first chunk of a role is moved twice"},
    {"sum_before_wait", "partials are added before their flags are there"},
    {"send_before_computed", "own tiles are sent before their flags are there"},
    {"forward_before_landed", "a relay sends on what it has not waited for"},
    {"pull_before_offer", "a chunk is fetched before it is offered"},
    {"deliver_before_wait", "rows go to the user before they are there"},
    {"silent_empty_rank", "a rank without rows sends no headers"},
    {"result_before_admit", "results are written before the peers' headers are there"},
    {"no_admit", "nobody waits for headers"},
    {"lost_tile", "a worker does not store its last tile"},
    {"neighbour_tile", "worker 0 does worker 1's tiles"},
    {"wrong_share", "rank 0 sums the pieces of a tile that are rank 1's"},
    {"flag_before_copy", "the copy role raises a chunk's flag before it copies the chunk"},
    {"short_chunk", "the copy role does not wait for the last flag of a chunk"},
    {"short_ring", "rounds of a collective have a place fewer"},
    {"foreign_place", "a parcel goes to the place of another source"},
    {"send_ahead", "rounds are sent one step earlier"},
    {"lost_last_chunk", "the last chunk of a role is not moved"},
    {"short_pair", "a rank whose parcel has ended raises no more flags"},
    {"unmatched_rounds", "a pair raises, and waits for, flags of parcels that go on alone"},
    {"sum_out_of_order", "a sum begins with its second term"},
    {"line_without_epoch", "the first line of a role does not carry the call's epoch"},
    {"line_at_least", "lines are taken whose epoch is >= the call's, instead of =="},
    {"wrong_chunk", "an order waits for the chunk before the one that a tile reads"},
    {"missed_chunk", "an order does not wait for the last chunk of a tile"},
    {"own_awaited", "an order by shard waits for own rows, which nobody sends"},
    {"own_unawaited", "a whole order does not wait for own rows, which are staged"},
    {"doubled_cell", "an order has its first cell twice, and its second never"},
    {"wrong_section", "an order's cells are those of the section before"},
    {"missed_columns", "an order leaves out the columns that the last shard to join missed"},
    {"clashing_partial", "an order gives all columns' partials one number"},
    {"own_first", "an order has own tiles before those that peers wait for"},
    {"pair_in_one_shard", "both CTAs of a pair have the tile of its first shard"},
}};

bool is_transfer(const Step& s) { return schedule::is_transfer(s.verb); }
bool is_wait(const Step& s) { return s.verb == Verb::wait; }
bool is_signal(const Step& s) { return s.verb == Verb::signal; }
bool is_flag_free(const Step& s) { return !is_wait(s) && !is_signal(s); }

template <class Pred>
bool erase(StepList& list, Pred pred) {
  return std::erase_if(list, pred) > 0;
}

/// Removes the waits that stand right before steps of this kind, all but `keep` of each run.
template <class Pred>
bool erase_waits_before(StepList& list, Pred pred, std::size_t keep = 0) {
  StepList kept;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::size_t end = i;
    while (end < list.size() && is_wait(list[end])) ++end;
    const bool hit = end > i && end < list.size() && pred(list[end]);
    const std::size_t take = hit ? std::min(keep, end - i) : end - i;
    for (std::size_t j = i; j < i + take; ++j) kept.push_back(list[j]);
    if (end < list.size()) kept.push_back(list[end]);
    i = end;
  }
  const bool changed = kept.size() != list.size();
  list = std::move(kept);
  return changed;
}

/// Of several waits before a transfer, the last.
bool erase_last_waits(StepList& list) {
  StepList kept;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool last = i > 0 && i + 1 < list.size() && is_wait(list[i - 1]) && is_wait(list[i]) &&
                      is_transfer(list[i + 1]);
    if (!last) kept.push_back(list[i]);
  }
  const bool changed = kept.size() != list.size();
  list = std::move(kept);
  return changed;
}

bool shift_waits(StepList& list) {
  Index before = -1;
  bool changed = false;
  for (Step& s : list) {
    if (!is_wait(s)) continue;
    const Index own = s.at;
    if (before >= 0) s.at = before;
    changed |= s.at != own;
    before = own;
  }
  return changed;
}

bool signal_early(StepList& list) {
  bool changed = false;
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (!is_signal(list[i]) || !is_flag_free(list[i - 1])) continue;
    std::swap(list[i - 1], list[i]);
    // No flag speaks of what a rank stores into its own result.
    const bool own = list[i].verb == Verb::store || list[i].verb == Verb::deliver;
    if (own && i > 1 && is_flag_free(list[i - 2])) std::swap(list[i - 2], list[i - 1]);
    changed = true;
  }
  return changed;
}

bool reduce_early(StepList& list) {
  bool changed = false;
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (list[i].verb != Verb::reduce) continue;
    for (std::size_t j = i; j > 0 && is_wait(list[j - 1]); --j) {
      std::swap(list[j - 1], list[j]);
      changed = true;
    }
  }
  return changed;
}

template <class Pred>
bool erase_first(StepList& list, Pred pred) {
  const auto at = std::find_if(list.begin(), list.end(), pred);
  if (at == list.end()) return false;
  list.erase(at);
  return true;
}

template <class Pred>
bool erase_last(StepList& list, Pred pred) {
  const auto at = std::find_if(list.rbegin(), list.rend(), pred);
  if (at == list.rend()) return false;
  list.erase(std::next(at).base());
  return true;
}

template <class Pred>
bool double_first(StepList& list, Pred pred) {
  const auto at = std::find_if(list.begin(), list.end(), pred);
  if (at == list.end()) return false;
  list.insert(at, Step(*at));
  return true;
}

bool misdirect_first(StepList& list, int ranks) {
  const auto at = std::find_if(list.begin(), list.end(), is_signal);
  if (at == list.end() || ranks < 2) return false;
  at->peer = (at->peer + 1) % ranks;
  return true;
}

bool admit_last(StepList& list) {
  const auto at =
      std::find_if(list.begin(), list.end(), [](const Step& s) { return s.verb == Verb::admit; });
  if (at == list.end() || std::next(at) == list.end()) return false;
  std::rotate(at, std::next(at), list.end());
  return true;
}

/// A rank passes on what others made: rows of another shard, or another rank's result.
bool is_relay(const Step& s, int rank) {
  return (s.verb == Verb::push || s.verb == Verb::send_result) && s.owner != rank;
}
bool sends_own(const Step& s, int rank) {
  return s.verb == Verb::send_partial || (s.verb == Verb::send_result && s.owner == rank);
}
bool is_pull(const Step& s) {
  return s.verb == Verb::pull || s.verb == Verb::fetch_partial || s.verb == Verb::fetch_result;
}

bool mutate_list(Mutant mutant, int ranks, int rank, bool copy, StepList& list) {
  if (mutant == Mutant::no_wait) return !copy && erase(list, is_wait);
  if (mutant == Mutant::short_wait)
    return erase_waits_before(
        list, [](const Step&) { return true; }, 1);
  if (mutant == Mutant::wrong_flag) return !copy && shift_waits(list);
  if (mutant == Mutant::early_signal) return signal_early(list);
  if (mutant == Mutant::flag_before_copy) return copy && signal_early(list);
  if (mutant == Mutant::short_chunk) return copy && erase_last_waits(list);
  if (mutant == Mutant::lost_signal) return erase_last(list, is_signal);
  if (mutant == Mutant::doubled_signal) return double_first(list, is_signal);
  if (mutant == Mutant::signal_to_wrong_peer) return misdirect_first(list, ranks);
  if (mutant == Mutant::lost_chunk) return erase_first(list, is_transfer);
  if (mutant == Mutant::doubled_chunk) return double_first(list, is_transfer);
  if (mutant == Mutant::sum_before_wait) return reduce_early(list);
  if (mutant == Mutant::send_before_computed)
    return erase_waits_before(list, [&](const Step& s) { return sends_own(s, rank); });
  if (mutant == Mutant::forward_before_landed)
    return erase_waits_before(list, [&](const Step& s) { return is_relay(s, rank); });
  if (mutant == Mutant::pull_before_offer) return erase_waits_before(list, is_pull);
  if (mutant == Mutant::deliver_before_wait)
    return erase_waits_before(list, [](const Step& s) { return s.verb == Verb::deliver; });
  if (mutant == Mutant::result_before_admit) return admit_last(list);
  if (mutant == Mutant::no_admit)
    return erase(list, [](const Step& s) { return s.verb == Verb::admit; });
  if (mutant == Mutant::lost_tile)  // sums behind the product are stored as they are reduced
    return erase_last(list, [](const Step& s) { return s.verb == Verb::store; }) ||
           erase_last(list, [](const Step& s) { return s.verb == Verb::reduce; });
  return false;
}

bool shift_share(const CallPlan& plan, int rank, std::vector<StepList>& lists) {
  if (!row_of(plan.spec().transport).needs_multicast() || plan.ranks() < 2 || rank != 0)
    return false;
  const schedule::TileSums& s = plan.switched(rank);
  if (s.one_shot) return false;  // no shares
  bool changed = false;
  for (StepList& list : lists)
    for (Step& x : list) {
      if (x.verb != Verb::reduce) continue;
      x.rows = s.share(s.work.order.cell(static_cast<int>(x.at)), 1);
      changed = true;
    }
  return changed;
}

}  // namespace

std::string_view name_of(Mutant mutant) {
  return kEntries.at(static_cast<std::size_t>(mutant)).name;
}
std::string_view describe(Mutant mutant) {
  return kEntries.at(static_cast<std::size_t>(mutant)).text;
}

bool mutate(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists) {
  if (mutant == Mutant::none || mutant == Mutant::kCount) return false;
  // How flags are read, slots and launch order are the explorer's: always something to bend.
  if (mutant < Mutant::no_wait) return true;
  if (mutant == Mutant::silent_empty_rank) {
    bool silent = false;
    for (StepList& list : lists)
      silent |= plan.shard(rank).size() == 0 &&
                erase(list, [](const Step& s) { return s.verb == Verb::signal_header; });
    return silent;
  }
  if (of_collectives(mutant)) return bend_exchange(mutant, plan, rank, lists);
  if (mutant >= Mutant::wrong_chunk) return bend(mutant, plan, rank, lists);
  if (mutant == Mutant::wrong_share) return shift_share(plan, rank, lists);
  if (mutant == Mutant::neighbour_tile) {
    if (lists.size() < 3 || lists[1] == lists[2]) return false;
    lists[1] = lists[2];
    return true;
  }
  bool changed = false;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    changed |= mutate_list(mutant, plan.ranks(), rank, i == 0, lists[i]);
  }
  return changed;
}

}  // namespace tilelace::check
