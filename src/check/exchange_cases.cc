// SPDX-License-Identifier: Apache-2.0
// Runs of collectives: random ones, and those that mutants are tried on.
#include <algorithm>
#include <utility>

#include "check/dice.h"
#include "check/mutants.h"
#include "check/sweep.h"

namespace tilelace::check {

namespace {

/// Rounds of the longest parcels: three times around the ring.
constexpr int kMostRounds = 3 * static_cast<int>(schedule::kRing);
/// Half of all calls that stay as far ahead of the epochs of unused words as they can be.
constexpr std::uint32_t kHalfTheEpochs = 0x80000000U;

Index random_units(Dice& dice, Index most) {
  if (dice.one_in(5)) return 0;
  if (dice.one_in(4)) return most;
  return dice.between(0, static_cast<int>(dice.one_in(2) ? most : std::min<Index>(most, 9)));
}

ExchangeSpec random_spec(Dice& dice, int ranks, int workers, bool lines) {
  ExchangeSpec s;
  s.collective = dice.any(std::array{Collective::all_reduce, Collective::all_gather,
                                     Collective::reduce_scatter, Collective::all_to_all});
  s.workers = dice.between(1, workers);
  s.chunk = dice.between(1, 4);
  s.lines = lines;
  if (row_of(s.collective).shares) s.shots = dice.between(1, 2);
  s.in_place = s.collective != Collective::all_to_all && dice.one_in(2);
  const Index most = s.workers * s.chunk * (lines ? 1 : dice.between(1, kMostRounds));
  const bool pairs = s.collective == Collective::all_to_all;
  const bool even = dice.one_in(3);
  const bool whole = row_of(s.collective).shares;
  s.direct = !lines && dice.one_in(2) && !(whole && s.shots == 1) && !(pairs && !even);
  if (whole) {
    s.units.push_back(random_units(dice, s.shots == 2 ? most * ranks : most));
    return s;
  }
  for (int i = 0; i < (pairs ? ranks * ranks : ranks); ++i)
    s.units.push_back(even && i > 0 ? s.units.front() : random_units(dice, most));
  return s;
}

CallSpec call_of(ExchangeSpec spec) {
  CallSpec call;
  call.exchange = std::move(spec);
  return call;
}

}  // namespace

CallSpec random_collective(Dice& dice, int ranks, int workers) {
  return call_of(random_spec(dice, ranks, workers, dice.one_in(2)));
}

CheckConfig random_exchange(std::uint64_t seed, std::int64_t i) {
  Dice dice(seed, i);
  CheckConfig c;
  c.ranks = dice.one_in(16) ? dice.between(9, 12) : dice.any(std::array{1, 2, 3, 4, 5, 6, 7, 8});
  c.workers = dice.between(1, 4);
  const bool lines = dice.one_in(4);
  const auto any = [&] {
    return call_of(random_spec(dice, c.ranks, c.workers, lines || dice.one_in(4)));
  };
  c.calls.push_back(any());
  const bool mixed = dice.one_in(2);
  for (int call = 1; call < 4; ++call) c.calls.push_back(mixed ? any() : c.calls.front());
  if (dice.one_in(2)) c.resident = dice.between(1, c.workers + 1);
  if (!dice.one_in(4)) c.seed = static_cast<std::uint64_t>(dice.between(1, 1 << 20));
  if (dice.one_in(8)) c.first_epoch = 0xFFFFFFFFU - static_cast<std::uint32_t>(dice.below(3));
  // Flags say `>=`, which holds for half of all epochs.
  if (dice.one_in(2))
    c.idle = lines ? kHalfTheEpochs - 2 + static_cast<std::uint32_t>(dice.below(4))
                   : kHalfTheEpochs - 2 - static_cast<std::uint32_t>(c.calls.size());
  return c;
}

namespace {

CheckConfig three(const ExchangeSpec& spec) {
  CheckConfig c;
  c.calls.assign(3, call_of(spec));
  c.ranks = 4;
  c.workers = spec.workers;
  return c;
}

/// Two workers. Of each kind: short of a whole chunk, twice around the ring; some are empty.
std::vector<ExchangeSpec> by_chunks() {
  const ExchangeSpec base{Collective::all_reduce, {33}, 1, 2, 2, false, false, false};
  std::vector<ExchangeSpec> all(9, base);
  all[1].shots = 2;
  all[1].units = {4 * 33 + 2};
  all[2].collective = Collective::reduce_scatter;
  all[2].units = {35, 0, 41, 7};
  all[3].collective = Collective::all_gather;
  all[3].units = {0, 37, 5, 44};
  all[4] = all[3];
  all[4].direct = true;
  all[5].collective = Collective::all_to_all;
  all[5].units = {3, 37, 0, 12, 0, 5, 41, 1, 36, 0, 0, 9, 0, 40, 2, 7};
  all[6] = all[5];
  all[6].direct = true;
  std::fill(all[6].units.begin(), all[6].units.end(), 37);
  all[7] = all[1];
  all[7].direct = true;
  all[8] = all[2];
  all[8].direct = true;
  return all;
}

}  // namespace

std::vector<CheckConfig> exchange_scenarios() {
  std::vector<CheckConfig> all;
  for (ExchangeSpec spec : by_chunks()) {
    all.push_back(three(spec));
    spec.in_place = spec.collective != Collective::all_to_all;
    all.push_back(three(spec));
    all.back().seed = 1;
    all.back().first_epoch = 0xFFFFFFFE;
    if (spec.direct) continue;
    spec.lines = true;
    spec.chunk = 4;
    for (auto& units : spec.units) units = std::min<Index>(units, spec.shots == 2 ? 26 : 7);
    all.push_back(three(spec));
    all.push_back(three(spec));
    all.back().idle = kHalfTheEpochs + 1;
    all.back().seed = 1;
  }
  // Calls that cut places and flags differently, one after the other.
  CheckConfig mixed = three(by_chunks().front());
  mixed.workers = 3;
  mixed.calls.clear();
  for (int i = 0; i < 12; ++i) {
    ExchangeSpec spec = by_chunks()[static_cast<std::size_t>(i * 5 % 9)];
    spec.workers = 1 + i % 3;
    spec.chunk = 1 + i % 4;
    if (spec.workers * spec.chunk < 3) spec.chunk = 3;
    mixed.calls.push_back(call_of(spec));
    spec.lines = !spec.direct && i % 2 == 0;
    for (auto& units : spec.units) units = std::min<Index>(units, spec.workers * spec.chunk);
    mixed.calls.push_back(call_of(spec));
  }
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    all.push_back(mixed);
    all.back().seed = seed;
  }
  return all;
}

}  // namespace tilelace::check
