// SPDX-License-Identifier: Apache-2.0
// The policy that finds the fastest of several plans, over a timer that tells what it is asked to.
#include "plan/tuning/halving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

namespace tilelace::plan {
namespace {

/// Calls that take what they take, and what was asked of them.
class Timer {
 public:
  explicit Timer(std::vector<double> us) : us_(std::move(us)) {}

  Halving run(const std::vector<double>& predicted_us) {
    return fastest_of(predicted_us, [&](std::size_t call, const Look& look) {
      if (look == kSettling) return Sample{1e6, settled_late};
      looks[call].push_back(look);
      order.push_back(call);
      const double cold = order.size() == 1 ? first : 1;
      return Sample{us_.at(call) * drift_of(order.size()) * cold * disturbed(call, look),
                    order.size() >= late_after};
    });
  }
  Halving run() { return run(std::vector<double>(us_.size(), 0)); }
  [[nodiscard]] std::size_t full_looks() const {
    std::size_t count = 0;
    for (const auto& [call, list] : looks) count += std::ranges::count(list, kFullLook);
    return count;
  }

  std::map<std::size_t, std::vector<Look>> looks;
  std::vector<std::size_t> order;
  bool settled_late = false;  ///< whether time is over before the first look
  std::size_t late_after = 1000000;
  double drift = 0;  ///< a look
  double first = 1;  ///< the first look takes so many times as long
  /// So many times as long takes a look that was just asked for.
  std::function<double(std::size_t, const Look&)> disturbed = [](std::size_t, const Look&) {
    return 1.0;
  };

 private:
  [[nodiscard]] double drift_of(std::size_t looks_so_far) const {
    return 1 + drift * static_cast<double>(looks_so_far);
  }
  std::vector<double> us_;
};

std::vector<double> ascending_to(std::size_t count) {
  std::vector<double> us;
  for (std::size_t i = 0; i < count; ++i) us.push_back(100 + static_cast<double>((i * 7) % count));
  return us;
}

TEST(Halving, TheFastestComesFirstAndAllHaveATime) {
  Timer timer(ascending_to(24));
  const Halving h = timer.run();
  ASSERT_EQ(h.times.size(), 24U);
  EXPECT_EQ(h.times.front().us, 100);
  EXPECT_EQ(h.times.front().index, 0U);
  std::vector<bool> seen(24);
  for (const CallTime& t : h.times) seen[t.index] = true;
  EXPECT_EQ(std::ranges::count(seen, true), 24);
  EXPECT_FALSE(h.late);
}

TEST(Halving, EachRoundHasFewerCallsAndLongerLooks) {
  Timer timer(ascending_to(24));
  timer.run();
  std::size_t second = 0;
  for (const auto& [call, list] : timer.looks) {
    EXPECT_EQ(list.front(), kFirstLook);
    second += std::ranges::count(list, kSecondLook);
  }
  EXPECT_EQ(second, 12U);
  EXPECT_EQ(timer.full_looks(), kFinalists * kFullRounds + 3);
}

TEST(Halving, FinalistsTakeTurnsToAndFro) {
  Timer timer(ascending_to(24));
  timer.run();
  const auto full = timer.order.end() - (kFinalists * kFullRounds + 1);
  for (std::size_t round = 1; round < kFullRounds; ++round)
    for (std::size_t i = 0; i < kFinalists; ++i)
      EXPECT_EQ(full[static_cast<std::ptrdiff_t>(round * kFinalists + i)],
                full[static_cast<std::ptrdiff_t>(round * kFinalists - 1 - i)]);
}

TEST(Halving, FirstLooksBehindAnotherKindHideNoPlan) {
  std::vector<double> all = ascending_to(24);
  all[12] = 95;
  Timer timer(all);
  const auto kind_of = [](std::size_t call) { return call / 12; };
  timer.disturbed = [&](std::size_t, const Look& look) {
    const std::size_t end = timer.order.size();
    for (std::size_t i = end - std::min<std::size_t>(end, 4); i + 1 < end; ++i)
      if (kind_of(timer.order[i]) != kind_of(timer.order[i + 1]))
        return look == kFirstLook ? 1.4 : 1.0;
    return 1.0;
  };
  EXPECT_EQ(timer.run().times.front().index, 12U);
}

TEST(Halving, ADipHidesNoPlan) {
  std::vector<double> all = ascending_to(24);
  std::swap(all[0], all[5]);
  for (const std::size_t begin : {0, 30, 48, 52, 58}) {
    Timer timer(all);
    timer.disturbed = [&](std::size_t, const Look& look) {
      const double settled = look == kSecondLook ? 1.1 : look == kFullLook ? 1.15 : 1;
      return settled * (timer.order.size() > begin && timer.order.size() <= begin + 3 ? 1.3 : 1);
    };
    EXPECT_NEAR(timer.run().times.front().us, 115, 1e-9) << begin;
  }
}

TEST(Halving, OneLongSampleHidesNoPlan) {
  Timer timer(ascending_to(8));
  timer.disturbed = [&](std::size_t call, const Look& look) {
    return call == 0 && look == kFullLook && std::ranges::count(timer.looks[0], look) == 4 ? 1.3
                                                                                           : 1;
  };
  const Halving h = timer.run();
  EXPECT_EQ(h.times.front().index, 0U);
  EXPECT_EQ(h.times.front().us, 100);
}

TEST(Halving, FewCallsAreAllFinalists) {
  Timer timer({3, 2, 1});
  const Halving h = timer.run();
  EXPECT_EQ(h.times.front().index, 2U);
  EXPECT_EQ(timer.full_looks(), 3 * kFullRounds + 3U);
  Timer one({5});
  EXPECT_EQ(one.run().times.front().us, 5);
  EXPECT_TRUE(fastest_of({}, {}).times.empty());
}

TEST(Halving, WhatPredictionAndLookPutFarBehindHasOneLook) {
  // Call 1 is slow as predicted, call 2 slow against its prediction, call 3 fast against it.
  Timer timer({100, 200, 200, 90, 95});
  const Halving h = timer.run({100, 200, 100, 200, 100});
  EXPECT_EQ(timer.looks[1].size(), 1U);
  EXPECT_GT(timer.looks[2].size(), 1U);
  EXPECT_EQ(h.times.front().index, 3U);
  EXPECT_EQ(h.times.back().index, 1U);
  ASSERT_EQ(h.times.size(), 5U);
}

TEST(Halving, WithoutTimeTheBestSoFarIsTold) {
  for (std::size_t looks = 1; looks < 84; ++looks) {
    Timer timer(ascending_to(24));
    timer.late_after = looks;
    const Halving h = timer.run();
    EXPECT_TRUE(h.late) << looks;
    EXPECT_EQ(timer.order.size(), looks);
    EXPECT_EQ(h.times.size(), std::min<std::size_t>(looks, 24));
    EXPECT_EQ(h.times.front().us, 100) << looks;
  }
}

TEST(Halving, WithoutAnyTimeCall0HasATime) {
  Timer timer(ascending_to(24));
  timer.settled_late = true;
  timer.late_after = 1;
  const Halving h = timer.run();
  EXPECT_TRUE(h.late);
  ASSERT_EQ(h.times.size(), 1U);
  EXPECT_EQ(h.times.front().index, 0U);
}

TEST(Halving, AColdMachineDoesNotHideCall0) {
  for (const double us : {99.0, 110.0}) {
    std::vector<double> all = ascending_to(24);
    all[0] = us;
    Timer timer(all);
    timer.first = 3;
    const Halving h = timer.run();
    EXPECT_EQ(h.times[us < 101 ? 0 : kFinalists].index, 0U);
    EXPECT_EQ(h.times[us < 101 ? 0 : kFinalists].us, us);
    EXPECT_EQ(h.times.size(), 24U);
  }
}

TEST(Halving, AStrayingMachineIsToldByCall0) {
  Timer steady(ascending_to(8)), straying(ascending_to(8));
  straying.drift = 0.1;
  const Halving a = steady.run(), b = straying.run();
  EXPECT_EQ(a.first_us, a.last_us);
  EXPECT_GT(b.last_us, 1.3 * b.first_us);
}

}  // namespace
}  // namespace tilelace::plan
