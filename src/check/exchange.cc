// SPDX-License-Identifier: Apache-2.0
#include "check/exchange.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "plan/collectives/collective.h"

namespace tilelace::check {

using schedule::kUnitBytes;

std::string to_string(const ExchangeSpec& s) {
  std::string text = fmt::format("{} units {} workers {} chunk {}", row_of(s.collective).name,
                                 fmt::join(s.units, ","), s.workers, s.chunk);
  if (s.shots != 1) text += fmt::format(" shots {}", s.shots);
  if (s.direct) text += " direct";
  if (s.lines) text += " lines";
  if (s.in_place) text += " in place";
  return text;
}

std::optional<std::string> legal(const ExchangeSpec& s, int ranks) {
  const bool pairs = s.collective == Collective::all_to_all;
  const auto all = static_cast<std::size_t>(ranks);
  if (ranks < 1 || ranks > kMaxCheckedRanks) return "ranks must be 1 to 64";
  if (s.units.size() != (row_of(s.collective).shares ? 1 : pairs ? all * all : all))
    return "units must have one entry for all_reduce, ranks x ranks for all_to_all, else one per "
           "rank";
  if (*std::min_element(s.units.begin(), s.units.end()) < 0) return "units must not be negative";
  if (s.workers < 1 || s.chunk < 1) return "workers and chunk must be at least 1";
  if (s.shots != 1 && (s.shots != 2 || !row_of(s.collective).shares))
    return "shots must be 1 or, for all_reduce, 2";
  const bool even = std::count(s.units.begin(), s.units.end(), s.units.front()) ==
                    static_cast<std::ptrdiff_t>(s.units.size());
  const bool one_shot = row_of(s.collective).shares && s.shots == 1;
  if (s.direct && (s.lines || one_shot || (pairs && !even)))
    return "direct needs chunks, and is neither for one-shot all_reduce nor for uneven all_to_all";
  if (s.in_place && pairs) return "all_to_all cannot run in place";
  const std::int64_t most = *std::max_element(s.units.begin(), s.units.end());
  const std::int64_t parcel = s.shots == 2 ? schedule::ceil_div(most, ranks) : most;
  const std::int64_t rounds = s.lines ? 1 : schedule::kMaxExchangeRounds;
  if (parcel > s.workers * s.chunk * rounds)
    return "a rank may send another at most workers x chunk x rounds units";
  return std::nullopt;
}

namespace {

/// Of this rank, as its arguments would say it; memory is not touched.
plan::CollectiveCall call_of(const ExchangeSpec& s, int rank, int ranks) {
  std::vector<std::int64_t> counts, takes;
  if (s.collective == Collective::all_to_all) {
    for (int q = 0; q < ranks; ++q) {
      counts.push_back(s.units[static_cast<std::size_t>(rank * ranks + q)] * kUnitBytes);
      takes.push_back(s.units[static_cast<std::size_t>(q * ranks + rank)] * kUnitBytes);
    }
  } else {
    for (const std::int64_t units : s.units) counts.push_back(units * kUnitBytes);
  }
  CollectiveArgs args;
  args.item = Item::u8;
  args.counts = counts;
  args.takes = takes;
  args.in =
      reinterpret_cast<const void*>(std::uintptr_t{1} << 40U);  // NOLINT(performance-no-int-to-ptr)
  args.out =
      reinterpret_cast<void*>(std::uintptr_t{1} << 50U);  // NOLINT(performance-no-int-to-ptr)
  return plan::check_collective(s.collective, args, rank, ranks);
}

}  // namespace

ExchangeCall make_exchange(const ExchangeSpec& s, int rank, int ranks) {
  plan::CollectivePlan plan;
  plan.lines = s.lines;
  plan.shots = s.shots;
  plan.direct = s.direct;
  plan.workers = s.workers;
  plan.chunk = s.chunk;
  plan.piece = s.chunk * s.workers * schedule::kMaxExchangeRounds;
  const auto placed = plan::place_exchange<kMaxCheckedRanks>(call_of(s, rank, ranks), plan, 0);
  ExchangeCall c;
  c.schedule = placed.schedule;
  c.lines = s.lines;
  c.in_place = s.in_place;
  for (int q = 0; q < ranks; ++q) {
    const auto at = static_cast<std::size_t>(q);
    c.in_at[at] = placed.sends[q].at / kUnitBytes;
    c.out_at[at] = placed.takes[q].at / kUnitBytes;
    c.in_units = std::max(c.in_units, c.in_at[at] + c.schedule.sends[q]);
    c.out_units = std::max(c.out_units, c.out_at[at] + c.result_units(q));
  }
  return c;
}

FlagName flag_name(const ExchangeCall& c, Index flag) {
  const auto& s = c.schedule;
  if (flag < 0 || flag >= s.num_flags()) return {fmt::format("flag {}", flag), -1};
  const schedule::ExchangeFlag f = s.flag_meaning(flag);
  return {fmt::format("{}(rank {}, round {}, worker {})", f.sums ? "sum" : "term", f.rank,
                      f.round.round, f.round.worker),
          f.rank};
}

}  // namespace tilelace::check
