// SPDX-License-Identifier: Apache-2.0
// The schedule of collectives: parts, rounds of pairs, flags and places; where parcels of plans
// lie.
#include "schedule/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "plan/collectives/collective.h"

namespace tilelace::schedule {
namespace {

int random_below(std::mt19937_64& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

/// Of every rank, for random parcels between them.
std::vector<Exchange> random_group(std::mt19937_64& random, bool shares) {
  const int ranks = 1 + random_below(random, kMaxGpuRanks);
  Exchange s;
  s.ranks = ranks;
  s.workers = 1 + random_below(random, 4);
  s.chunk = 1 + random_below(random, 5);
  s.sums = s.shares = shares;
  const int most = static_cast<int>(s.chunk) * s.workers * 12;
  std::vector<Exchange> all(static_cast<std::size_t>(ranks), s);
  for (int p = 0; p < ranks; ++p) all[static_cast<std::size_t>(p)].rank = p;
  for (int q = 0; q < ranks; ++q) {
    const Index owned = random_below(random, most);
    for (int p = 0; p < ranks; ++p) {
      const Index units = shares                         ? owned
                          : random_below(random, 3) == 0 ? 0
                                                         : random_below(random, most);
      all[static_cast<std::size_t>(p)].sends[q] = units;
      all[static_cast<std::size_t>(q)].takes[p] = units;
      if (shares) all[static_cast<std::size_t>(p)].owned[q] = owned;
    }
  }
  return all;
}

TEST(Exchange, PartsCoverEachParcelOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const Exchange s = random_group(random, false).front();
    for (int q = 0; q < s.ranks; ++q) {
      std::vector<int> times(static_cast<std::size_t>(s.sends[q]), 0);
      for (Index r = 0; r < s.rounds() + 2; ++r)
        for (int w = 0; w < s.workers; ++w) {
          const RowRange part = s.part({w, r}, s.sends[q]);
          ASSERT_LE(part.size(), s.chunk);
          ASSERT_TRUE(part.size() == 0 || r < s.rounds_of(s.sends[q]));
          for (Index u = part.begin; u < part.end; ++u) ++times[static_cast<std::size_t>(u)];
        }
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), s.sends[q]);
    }
  }
}

TEST(Exchange, BothSidesOfAPairGoThroughAsManyRounds) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const auto all = random_group(random, i % 2 == 0);
    for (const Exchange& a : all)
      for (const Exchange& b : all) {
        EXPECT_EQ(a.pair_rounds(b.rank), b.pair_rounds(a.rank));
        EXPECT_LE(a.pair_rounds(b.rank), a.rounds());
        // Whoever sends sums hears of the peer's rounds until then.
        if (a.shares) {
          EXPECT_GE(a.pair_rounds(b.rank), a.rounds_of(a.owned[a.rank]));
        }
      }
  }
}

TEST(Exchange, FlagsAreOfOneSourceRoundAndWorkerEach) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const Exchange s = random_group(random, i % 2 == 0).front();
    std::vector<int> used(static_cast<std::size_t>(s.num_flags()), 0);
    for (int p = 0; p < s.ranks; ++p)
      for (Index r = 0; r < kMaxExchangeRounds; ++r)
        for (int w = 0; w < s.workers; ++w) {
          ++used.at(static_cast<std::size_t>(s.term(p, {w, r})));
          if (s.shares) ++used.at(static_cast<std::size_t>(s.sum(p, {w, r})));
        }
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), s.num_flags());
  }
}

TEST(Exchange, PlacesOfRoundsInFlightAreApartAndFillTheStaging) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100; ++i) {
    const Exchange s = random_group(random, i % 2 == 0).front();
    for (int at = 0; at < s.ranks; ++at) {
      std::vector<int> used(static_cast<std::size_t>(s.num_units()), 0);
      const Index first = random_below(random, 50);
      const auto mark = [&](Index place) {
        for (Index u = place; u < place + s.chunk; ++u) ++used.at(static_cast<std::size_t>(u));
      };
      for (int p = 0; p < s.ranks; ++p)
        for (Index r = first; r < first + kRing && p != at; ++r)
          for (int w = 0; w < s.workers; ++w) {
            mark(s.term_place(at, p, {w, r}));
            if (s.shares) mark(s.sum_place(at, p, {w, r}));
          }
      EXPECT_EQ(std::count(used.begin(), used.end(), 1), s.num_units());
    }
  }
}

TEST(Exchange, DirectCallsStageNothing) {
  Exchange s;
  s.ranks = 4;
  s.direct = true;
  EXPECT_EQ(s.num_units(), 0);
}

/// What a rank does, as words.
struct Told {
  std::vector<std::string> all;
  void say(const char* what, Index round) { all.push_back(what + std::to_string(round)); }
  void send(ExchangeRound r) { say("send ", r.round); }
  void signal(int peer, Index /*flag*/) { say("signal ", peer); }
  void admit() { all.emplace_back("admit"); }
  void wait(Index /*flag*/) { all.emplace_back("wait"); }
  void take(ExchangeRound r) { say("take ", r.round); }
  void deliver(ExchangeRound r) { say("deliver ", r.round); }
};

TEST(Exchange, SumsTravelBehindTheNextRound) {
  Exchange s;
  s.ranks = 2;
  s.sums = s.shares = true;
  for (int q = 0; q < 2; ++q) s.sends[q] = s.takes[q] = s.owned[q] = 2;

  Told told;
  run_exchange(s, 0, told);

  EXPECT_EQ(told.all,
            (std::vector<std::string>{"send 0", "signal 1", "admit", "send 1", "wait", "take 0",
                                      "signal 1", "signal 1", "wait", "take 1", "signal 1", "wait",
                                      "deliver 0", "wait", "deliver 1"}));
}

TEST(Exchange, DirectCallsAreAdmittedBeforeTheySend) {
  Exchange s;
  s.ranks = 2;
  s.direct = true;
  s.sends[0] = s.sends[1] = s.takes[0] = s.takes[1] = 1;

  Told told;
  run_exchange(s, 0, told);

  EXPECT_EQ(told.all, (std::vector<std::string>{"admit", "send 0", "take 0", "signal 1", "wait"}));
}

TEST(Exchange, DirectSumsSendNothingAndEndTogether) {
  Exchange s;
  s.ranks = 3;
  s.direct = s.sums = s.shares = true;
  for (int q = 0; q < 3; ++q) s.sends[q] = s.takes[q] = s.owned[q] = 2;

  Told told;
  run_exchange(s, 0, told);

  EXPECT_EQ(told.all, (std::vector<std::string>{"admit", "take 0", "take 1", "signal 1", "signal 2",
                                                "wait", "wait"}));
}

TEST(Exchange, CallsWithoutUnitsAreAdmitted) {
  Exchange s;
  s.ranks = 3;

  Told told;
  run_exchange(s, 0, told);

  EXPECT_EQ(told.all, std::vector<std::string>{"admit"});
}

}  // namespace
}  // namespace tilelace::schedule

namespace tilelace::plan {
namespace {

CollectiveCall call_of(Collective collective, const std::vector<std::int64_t>& counts,
                       const std::vector<std::int64_t>& takes, int rank, int ranks) {
  CollectiveArgs args;
  args.item = Item::u8;
  args.counts = counts;
  args.takes = takes;
  args.in = reinterpret_cast<const void*>(std::uintptr_t{1} << 40U);
  args.out = reinterpret_cast<void*>(std::uintptr_t{1} << 50U);
  return check_collective(collective, args, rank, ranks);
}

/// Of bytes: how often parcels of all pieces cover each.
struct Covered {
  std::vector<int> times;
  explicit Covered(Index bytes) : times(static_cast<std::size_t>(bytes), 0) {}
  void add(const Parcel& p) {
    for (Index b = p.at; b < p.at + p.bytes; ++b) ++times.at(static_cast<std::size_t>(b));
  }
  [[nodiscard]] bool once() const {
    return std::all_of(times.begin(), times.end(), [](int n) { return n == 1; });
  }
};

/// Between two ranks what one sends is what the other takes, in every piece.
TEST(PlacedExchange, PiecesOfAnAllReduceInTwoShotsCoverItOnce) {
  for (const std::int64_t bytes : {0, 1, 15, 16, 17, 1000, 12345}) {
    for (const int ranks : {1, 2, 3, 8}) {
      CollectivePlan plan;
      plan.shots = 2;
      plan.piece = 7;
      plan.pieces = std::max<Index>(1, schedule::ceil_div(bytes, ranks * 16 * plan.piece) + 1);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto call = call_of(Collective::all_reduce, {bytes}, {}, rank, ranks);
        Covered in(bytes), out(bytes);
        for (Index piece = 0; piece < plan.pieces; ++piece) {
          const auto placed = place_exchange<schedule::kMaxGpuRanks>(call, plan, piece);
          for (int q = 0; q < ranks; ++q) {
            in.add(placed.sends[q]);
            out.add(placed.takes[q]);
            EXPECT_EQ(placed.schedule.takes[q], placed.schedule.sends[rank]);
            EXPECT_EQ(placed.schedule.owned[q], placed.schedule.sends[q]);
          }
        }
        EXPECT_TRUE(in.once() && out.once()) << bytes << " bytes, " << ranks << " ranks";
      }
    }
  }
}

TEST(PlacedExchange, PiecesOfAnAllToAllMatchBetweenRanks) {
  std::mt19937_64 random(5);
  constexpr int kRanks = 4;
  std::int64_t matrix[kRanks][kRanks];
  for (auto& row : matrix)
    for (auto& bytes : row) bytes = static_cast<std::int64_t>(random() % 700);
  CollectivePlan plan;
  plan.piece = 10;
  plan.pieces = 5;
  std::vector<CollectiveCall> calls;
  std::vector<Covered> in, out;
  for (int a = 0; a < kRanks; ++a) {
    std::vector<std::int64_t> counts, takes;
    for (int b = 0; b < kRanks; ++b) {
      counts.push_back(matrix[a][b]);
      takes.push_back(matrix[b][a]);
    }
    calls.push_back(call_of(Collective::all_to_all, counts, takes, a, kRanks));
    in.emplace_back(calls.back().sends.back().at + calls.back().sends.back().bytes);
    out.emplace_back(calls.back().takes.back().at + calls.back().takes.back().bytes);
  }
  for (Index piece = 0; piece < plan.pieces; ++piece) {
    for (int a = 0; a < kRanks; ++a) {
      const auto from = place_exchange<schedule::kMaxGpuRanks>(calls[a], plan, piece);
      for (int b = 0; b < kRanks; ++b) {
        const auto to = place_exchange<schedule::kMaxGpuRanks>(calls[b], plan, piece);
        EXPECT_EQ(from.sends[b].bytes, to.takes[a].bytes);
        EXPECT_EQ(from.schedule.sends[b], to.schedule.takes[a]);
        in[a].add(from.sends[b]);
        out[a].add(from.takes[b]);
      }
    }
  }
  for (int a = 0; a < kRanks; ++a) EXPECT_TRUE(in[a].once() && out[a].once()) << a;
}

}  // namespace
}  // namespace tilelace::plan
