// SPDX-License-Identifier: Apache-2.0
// The GEMM's order and the sharing of k-steps: every step of every tile once, partials where heads
// look for them, no wait for a worker that waits.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "night.h"
#include "plan/gemm/gemm_plan.h"
#include "schedule/gemm.h"
#include "tilelace/error.h"

namespace tilelace::schedule {
namespace {

TEST(GemmSchedule, EveryCellIsVisitedOnce) {
  std::mt19937 rng(3);
  const auto any = [&](int most) {
    return 1 + static_cast<int>(rng() % static_cast<unsigned>(most));
  };
  for (int i = 0; i < 2000; ++i) {
    const GemmOrder order{any(20), any(20), any(9), i % 2 == 0, any(6), any(5)};
    std::set<std::pair<int, int>> seen;
    for (int t = 0; t < order.tiles(); ++t) {
      const GemmCell c = order.cell(t);
      ASSERT_TRUE(c.row >= 0 && c.row < order.rows && c.col >= 0 && c.col < order.cols);
      ASSERT_TRUE(seen.emplace(c.row, c.col).second);
    }
  }
}

struct RoundsOrder : GemmOrder {
  static constexpr bool kInRounds = true;
};
using RoundsWork = GemmWorkOf<RoundsOrder>;

using Steps = std::map<std::pair<int, int>, int>;     ///< (tile, k-step) -> times
using Partials = std::map<std::pair<int, int>, int>;  ///< (worker, round) -> tile

/// Takes down what one worker's math role does.
template <class Work>
struct Recorder {
  Recorder(int w, Steps& s, Partials& p, const Work& of)
      : worker(w), steps(s), partials(p), work(of) {}

  int worker;
  Steps& steps;
  Partials& partials;
  const Work& work;
  std::vector<std::array<int, 3>> adds;  ///< tile, from, round
  std::vector<int> stored;
  GemmSegment now{};
  std::set<int> rounds;  ///< in which this worker has multiplied
  bool first = false;    ///< the last segment was the first of its round
  bool given_first = true;

  void skip(GemmSegment /*other*/) {}
  void multiply(const GemmSegment& s) {
    now = s;
    first = s.tile < work.split_tiles && rounds.insert(s.tile / work.round_tiles).second;
    for (int k = s.begin; k < s.end; ++k) ++steps[{s.tile, k}];
  }
  void give_partial(int round) {
    given_first = given_first && first;
    EXPECT_TRUE(partials.emplace(std::pair(worker, round), now.tile).second);
  }
  void add_partial(int from, int round) { adds.push_back({now.tile, from, round}); }
  void store(GemmCell /*cell*/) { stored.push_back(now.tile); }
};

template <class Work>
void expect_shared_once(const Work& work) {
  Steps steps;
  Partials partials;
  std::set<int> stored;
  Partials taken;
  for (int w = 0; w < work.workers; ++w) {
    Recorder r(w, steps, partials, work);
    run_gemm_math(work, w, 0, 1, r);
    ASSERT_TRUE(r.given_first) << "a partial comes first in its round";
    for (const int t : r.stored) ASSERT_TRUE(stored.insert(t).second);
    for (const auto& [tile, from, round] : r.adds) {
      ASSERT_GT(from, w) << "waits go one way only";
      ASSERT_EQ(tile / work.round_tiles, round);
      ASSERT_TRUE(taken.emplace(std::pair(from, round), tile).second);
    }
  }
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(work.order.tiles() * work.k_steps));
  for (const auto& [at, times] : steps) ASSERT_EQ(times, 1);
  ASSERT_EQ(stored.size(), static_cast<std::size_t>(work.order.tiles()));
  ASSERT_EQ(taken, partials);
}

TEST(GemmSchedule, EveryStepIsTakenOnceAndHeadsFindTheirTails) {
  std::mt19937 rng(static_cast<unsigned>(5 + night_seed()));
  const auto any = [&](int most) {
    return 1 + static_cast<int>(rng() % static_cast<unsigned>(most));
  };
  for (int i = 0; i < 1000 * night_times(); ++i) {
    const GemmOrder order{any(9), any(9), any(4), i % 2 == 0};
    const int workers = any(40);
    const int k_steps = any(30);
    const int split = static_cast<int>(rng() % static_cast<unsigned>(order.tiles() + 1));
    ASSERT_NO_FATAL_FAILURE(expect_shared_once(make_gemm_work(order, workers, k_steps, split)));
    for (const int rounds : {1, 2})
      ASSERT_NO_FATAL_FAILURE(expect_shared_once(
          make_gemm_work(RoundsOrder{order}, workers, k_steps, split / rounds * rounds, rounds)));
  }
}

TEST(GemmSchedule, TheFirstRoundsTilesAreOverBeforeTheSeconds) {
  const RoundsWork work = make_gemm_work(RoundsOrder{{2, 8, 2, false}}, 16, 12, 16, 2);
  for (int w = 0; w < work.workers; ++w) {
    GemmSegments segments(work, w);
    GemmSegment s;
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(segments.next(work, s));
      EXPECT_EQ(segments.round(), round);
      EXPECT_EQ(s.tile, 8 * round + w / 2);
      EXPECT_EQ(s.begin, w % 2 * 6);
      EXPECT_EQ(s.steps(), 6);
    }
    EXPECT_FALSE(segments.next(work, s));
  }
}

TEST(GemmSchedule, TurnsShareTheSegmentsOfAWorker) {
  const GemmWork work = make_gemm_work(GemmOrder{5, 7, 2, false}, 4, 9, 6);
  Steps steps;
  Partials partials;
  for (int w = 0; w < 4; ++w)
    for (int lane = 0; lane < 2; ++lane) {
      const std::size_t before = partials.size();
      Recorder r(w, steps, partials, work);
      run_gemm_math(work, w, lane, 2, r);
      EXPECT_TRUE(lane == 0 || partials.size() == before) << "partials are given in the first turn";
    }
  ASSERT_EQ(steps.size(), 35U * 9);
  for (const auto& [at, times] : steps) EXPECT_EQ(times, 1);
}

TEST(GemmPlan, CandidatesCoverAndAreSorted) {
  for (const plan::GemmProblem p :
       {plan::GemmProblem{1, 8, 8}, {64, 5120, 6400}, {256, 3200, 5120}, {8192, 12288, 12288}}) {
    const auto plans = plan::gemm_candidates(p);
    ASSERT_FALSE(plans.empty());
    for (std::size_t i = 1; i < plans.size(); ++i)
      EXPECT_LE(plans[i - 1].predicted_us, plans[i].predicted_us);
    for (const auto& c : plans) {
      const auto work = plan::work_of(c, p);
      const auto rows = c.tile.swapped ? p.n : p.m;
      const auto cols = c.tile.swapped ? p.m : p.n;
      EXPECT_GE(work.order.rows * c.tile.rows() * c.tile.cluster_rows, rows);
      EXPECT_GE(work.order.cols * c.tile.width * c.tile.cluster_cols, cols);
      EXPECT_LE(work.split_tiles, work.order.tiles());
      if (c.split_tiles > 0) {
        EXPECT_LE(c.workers * c.tile.cluster(), 132);
      }
    }
  }
}

/// Of any tile, whose tiles for m tokens then stand in one row; and with a token more they do not.
TEST(GemmPlan, OverOneRowOfTilesAllWalksAreAlike) {
  int changed = 0;
  for (const plan::GemmTile& tile : plan::kGemmTiles) {
    const plan::GemmProblem p{tile.worker_tokens(), std::int64_t{20} * tile.worker_columns(), 64};
    for (const int group : {1, 8, 1 << 12}) {
      const plan::GemmPlan walk{.tile = tile, .workers = 66, .group = group, .along_cols = true};
      const plan::GemmPlan plain = plan::plainly_walked(walk, p.m);
      EXPECT_FALSE(plain.along_cols) << tile.name;
      EXPECT_TRUE(plan::is_plainly_walked(plain, p.m)) << tile.name;
      const auto one = plan::work_of(walk, p).order, other = plan::work_of(plain, p).order;
      ASSERT_EQ(one.tiles(), 20);
      for (int t = 0; t < 20; ++t) {
        EXPECT_EQ(one.cell(t).row, other.cell(t).row) << tile.name << " " << t;
        EXPECT_EQ(one.cell(t).col, other.cell(t).col) << tile.name << " " << t;
      }
      EXPECT_TRUE(plan::plainly_walked(walk, p.m + 1).along_cols) << tile.name;
      ++changed;
    }
  }
  EXPECT_GT(changed, 100);
}

TEST(GemmPlan, TheBestPredictionIsNearTheRoof) {
  for (const std::int64_t m : {16, 64, 256, 512, 1024, 4096, 16384})
    for (const auto& [n, k] :
         {std::pair{12288, 12288}, {7168, 8192}, {3200, 5120}, {5120, 25600}}) {
      const plan::GemmProblem p{m, n, k};
      const auto best = plan::gemm_candidates(p).front();
      const double flops = 2.0 * static_cast<double>(m) * n * k;
      const double bytes = 2.0 * static_cast<double>(m * k + std::int64_t{n} * k + m * n);
      const double roof_us = std::max(flops / 989e6, bytes / 4.8e6);
      EXPECT_GT(best.predicted_us, roof_us) << m << " " << n << " " << k << " " << best;
      EXPECT_LT(best.predicted_us, 2 * roof_us + 6) << m << " " << n << " " << k << " " << best;
      if (m == 16) {
        EXPECT_LE(best.tile.worker_tokens(), 64) << best;
      }
      if (m >= 4096) {
        EXPECT_GE(best.tile.rows() * best.tile.width, 128 * 160) << best;
      }
    }
}

TEST(GemmPlan, WhatCannotBeIsRefused) {
  EXPECT_THROW(plan::gemm_candidates({0, 8, 8}), Error);
  EXPECT_THROW(plan::gemm_candidates({8, 12, 8}), Error);
  EXPECT_THROW(plan::gemm_candidates({8, 8, 4}), Error);
}

}  // namespace
}  // namespace tilelace::schedule
