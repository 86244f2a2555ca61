// SPDX-License-Identifier: Apache-2.0
// The reference maker of maps against a definition by sorting, and wrong_in_map against mutants.
#include "check/moe_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "check/dice.h"

namespace tilelace::check {
namespace {

using schedule::Index;
using schedule::MoeMap;
using Ids = std::vector<std::int64_t>;
using Words = std::vector<std::int32_t>;

constexpr std::int32_t kUntouched = -77;

Words filled(const MoeMap& s, const Ids& ids) {
  Words map(static_cast<std::size_t>(s.words()), kUntouched);
  schedule::fill_moe_map(s, ids.data(), map.data());
  return map;
}

/// The map of these ids as a stable sort has it.
Words sorted(const MoeMap& s, const Ids& ids) {
  Words map(static_cast<std::size_t>(s.words()), kUntouched);
  std::vector<std::size_t> kept;
  const auto begin = map.begin(), rows = begin + s.row_of(), sources = begin + s.source_of();
  const auto expert = [&](std::size_t pair) { return ids[pair]; };
  map[static_cast<std::size_t>(s.wrong())] = 0;
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows[static_cast<Index>(i)] = sources[static_cast<Index>(i)] = -1;
    hash += schedule::id_hash(static_cast<Index>(i), ids[i]);
    const bool known = ids[i] >= -1 && ids[i] < s.experts;
    auto& wrong = map[static_cast<std::size_t>(s.wrong())];
    if (!known && wrong == 0) wrong = static_cast<std::int32_t>(i) + 1;
    if (known && ids[i] >= s.first && ids[i] < s.first + s.here) kept.push_back(i);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](std::size_t a, std::size_t b) { return expert(a) < expert(b); });
  for (std::size_t row = 0; row < kept.size(); ++row) {
    rows[static_cast<Index>(kept[row])] = static_cast<std::int32_t>(row);
    sources[static_cast<Index>(row)] = static_cast<std::int32_t>(kept[row]);
  }
  for (Index e = 0; e <= s.here; ++e)
    begin[e] = static_cast<std::int32_t>(std::count_if(
        kept.begin(), kept.end(), [&](std::size_t i) { return expert(i) < s.first + e; }));
  map[static_cast<std::size_t>(s.hash())] = static_cast<std::int32_t>(hash);
  return map;
}

void expect_right(const MoeMap& s, const Ids& ids) {
  const Words map = filled(s, ids);
  const auto say = [&] {
    std::string text = "experts " + std::to_string(s.experts) + ", here " +
                       std::to_string(s.first) + " + " + std::to_string(s.here) + ", ids";
    for (const auto id : ids) text += " " + std::to_string(id);
    return text;
  };
  ASSERT_EQ(wrong_in_map(s, ids, map).value_or(""), "") << say();
  ASSERT_TRUE(map == sorted(s, ids)) << say();
}

/// Every rank's experts, for all ways to cut them.
template <class Visit>
void each_range(Index experts, const Visit& visit) {
  for (Index first = 0; first <= experts; ++first)
    for (Index here = first == 0 ? 0 : 1; first + here <= experts; ++here) visit(first, here);
}

TEST(MoeMap, IsRightForAllSmallRoutings) {
  for (Index m = 0; m <= 4; ++m)
    for (Index k = 1; k <= 2; ++k)
      for (Index experts = 1; experts <= 3; ++experts) {
        Ids ids(static_cast<std::size_t>(m * k), -1);
        for (;;) {
          each_range(experts, [&](Index first, Index here) {
            expect_right({m, k, experts, first, here}, ids);
          });
          if (HasFatalFailure()) return;
          // the next routing: ids count from -1 to `experts`, which names none
          const auto digit =
              std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) { return id < experts; });
          std::fill(ids.begin(), digit, -1);
          if (digit == ids.end()) break;
          ++*digit;
        }
      }
}

TEST(MoeMap, IsRightForHotExpertsDuplicatesAndIdsThatNameNone) {
  const Index m = 40, k = 4, experts = 8;
  const auto each = [&](auto id_of) {
    Ids ids(static_cast<std::size_t>(m * k));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = id_of(static_cast<Index>(i));
    each_range(experts, [&](Index first, Index here) {
      expect_right({m, k, experts, first, here}, ids);
    });
  };
  each([](Index) { return -1; });
  each([](Index) { return 5; });
  each([&](Index i) { return i / k % experts; });  // a token's slots are equal
  each([&](Index i) { return i % 3 == 0 ? -1 : i % experts; });
  each([&](Index i) { return i == 17 ? experts : i % experts; });
  each([](Index i) { return i == 159 ? std::numeric_limits<std::int64_t>::min() : 0; });
  each([](Index i) { return i == 0 ? std::numeric_limits<std::int64_t>::max() : 7; });
  each([](Index i) { return i == 3 ? (std::int64_t{1} << 32) + 2 : 2; });
}

TEST(MoeMap, IsRightForRandomRoutings) {
  for (int i = 0; i < 2000; ++i) {
    Dice dice(7, i);
    const int experts = dice.between(1, 64), k = dice.between(1, 8), m = dice.between(0, 60);
    const int first = dice.below(experts), here = dice.between(0, experts - first);
    const int hot = dice.below(experts), odd = dice.one_in(3) ? 50 : 1 << 30;
    Ids ids(static_cast<std::size_t>(m * k));
    for (auto& id : ids) {
      id = dice.one_in(3) ? hot : dice.between(-1, experts - 1);
      if (dice.one_in(odd)) id = dice.between(-5, experts + 5);
    }
    expect_right({m, k, experts, first, here}, ids);
    if (HasFatalFailure()) return;
  }
}

TEST(MoeMap, OfIdsOf32BitsIsTheSame) {
  const MoeMap s{3, 2, 4, 1, 2};
  const Ids ids{3, 1, -1, 2, 1, 9};
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  Words map(static_cast<std::size_t>(s.words()), kUntouched);
  schedule::fill_moe_map(s, narrow.data(), map.data());
  EXPECT_EQ(map, filled(s, ids));
}

TEST(MoeMap, SectionsDoNotOverlap) {
  const MoeMap s{5, 7, 64, 32, 32};
  EXPECT_EQ(s.row_of(), 64);                  // 33 begins
  EXPECT_EQ(s.source_of() - s.row_of(), 64);  // 35 pairs
  EXPECT_EQ(s.wrong() - s.source_of(), 64);
  EXPECT_EQ(s.weights(), s.wrong() + 64);
  EXPECT_EQ(s.words(), s.weights() + 64);
}

TEST(MoeMap, HashTellsOrderAndSlots) {
  const MoeMap s{2, 2, 4, 0, 4};
  const auto hash = [&](const Ids& ids) {
    return filled(s, ids)[static_cast<std::size_t>(s.hash())];
  };
  EXPECT_NE(hash({0, 1, 2, 3}), hash({1, 0, 2, 3}));
  EXPECT_NE(hash({0, 1, 2, 3}), hash({2, 3, 0, 1}));
  EXPECT_NE(hash({0, 1, 2, 3}), hash({0, 1, 2, -1}));
}

/// Wherever it has a place, and it has one.
TEST(MoeMap, MutantsAreFound) {
  for (const MapMutantResult& r : run_map_mutants()) {
    EXPECT_GT(r.applied, 20) << name_of(r.mutant);
    EXPECT_EQ(r.caught, r.applied) << name_of(r.mutant);
  }
}

TEST(MoeMap, ASearchFindsNothing) {
  const MapSweep sweep = sweep_maps(300, 3);
  EXPECT_EQ(sweep.finding, "");
  EXPECT_GT(sweep.maps, 1'000'000);
}

}  // namespace
}  // namespace tilelace::check
