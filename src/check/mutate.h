// SPDX-License-Identifier: Apache-2.0
// Seeded bugs that the checker must find. Each removes or weakens one guard of the protocol.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "check/call.h"

namespace tilelace::check {

enum class Mutant : std::uint8_t {
  none,
  // These change how flags are read.
  equal_for_at_least,
  stale_epoch,
  stale_header,
  unsigned_compare,
  // These change a run's slots, or when its actors start.
  one_slot,
  one_flag_set,
  send_before_consumption,
  waiters_before_senders,
  // These change the actors' lists of steps.
  no_wait,
  short_wait,
  wrong_flag,
  early_signal,
  lost_signal,
  doubled_signal,
  signal_to_wrong_peer,
  lost_chunk,
  doubled_chunk,
  sum_before_wait,
  send_before_computed,
  forward_before_landed,
  pull_before_offer,
  deliver_before_wait,
  silent_empty_rank,
  result_before_admit,
  no_admit,
  lost_tile,
  neighbour_tile,
  wrong_share,
  flag_before_copy,
  short_chunk,
  // These change a collective's lists of steps, or how its lines (data with call numbers) are read.
  short_ring,
  foreign_place,
  send_ahead,
  lost_last_chunk,
  short_pair,
  unmatched_rounds,
  sum_out_of_order,
  line_without_epoch,
  line_at_least,
  // These change the order in which kernels walk over tiles; the loops stay as they are.
  wrong_chunk,
  missed_chunk,
  own_awaited,
  own_unawaited,
  doubled_cell,
  wrong_section,
  missed_columns,
  clashing_partial,
  own_first,
  pair_in_one_shard,
  kCount
};
constexpr int kMutants = static_cast<int>(Mutant::kCount) - 1;

/// Whether the mutant changes only collectives.
constexpr bool of_collectives(Mutant m) {
  return m >= Mutant::short_ring && m <= Mutant::line_at_least;
}

std::string_view name_of(Mutant);
/// One line that says what the mutant breaks.
std::string_view describe(Mutant);

/// Rewrites the lists of a rank's copy role and workers. Returns false if nothing changed.
bool mutate(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists);

}  // namespace tilelace::check
