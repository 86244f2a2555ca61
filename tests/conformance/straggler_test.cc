// SPDX-License-Identifier: Apache-2.0
// Many calls in a row, each checked, with new data each: with ranks delayed at random points and
// without any delay, where communication outlasts the product.
#include <gtest/gtest.h>
#include <time.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "core/points.h"
#include "night.h"
#include "runner.h"

namespace tilelace::conformance {
namespace {

const int kCalls = TILELACE_STRAGGLER_CALLS * night_times();

/// One pass of a point in 400 takes up to 10 ms; which, depends on the thread's own generator.
void delay_at_random(const char* point, int rank) {
  static thread_local Random random(test::hash(night_seed() +
                                               static_cast<std::uint64_t>(rank) * 7919 + 1 +
                                               std::hash<std::string>{}(point)));
  if (random.between(1, 400) != 1) return;
  const timespec nap{0, random.between(100'000, 10'000'000)};
  nanosleep(&nap, nullptr);
}

Case stress_case(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  Case c;
  c.problem.op = op;
  c.problem.ranks = ranks;
  c.problem.m = m;
  c.problem.n = {n};
  c.problem.k = k;
  c.problem.return_gathered = op == Op::ag_gemm;
  c.options.tile_m = 8;
  c.options.tile_n = 32;
  c.options.chunk_rows = 4;
  if (op == Op::gemm_ar) c.options.blocks = 2;
  c.workers = 2;
  c.calls = {{m, {}}, {m - 3, {}}};
  c.seed = 77 + night_seed();
  c.name = "stress";
  return c;
}

class Stress : public ::testing::TestWithParam<Op> {
 protected:
  void SetUp() override { points::poison_slots = true; }
  void TearDown() override {
    points::hook = nullptr;
    points::poison_slots = false;
  }
};

void expect_clean(Runner& runner, const std::vector<Case>& cases, const RunOptions& options) {
  for (const auto& failure : runner.run(cases, options)) ADD_FAILURE() << failure;
}

TEST_P(Stress, StragglersNeverChangeAResult) {
  points::hook = delay_at_random;
  Runner runner(4, 2);
  RunOptions options;
  options.repeats = kCalls / 2;
  expect_clean(runner, {stress_case(GetParam(), 4, 37, 48, 32)}, options);
}

TEST_P(Stress, CallsWithoutDelaysStayRight) {
  for (const auto transport : {Transport::push, Transport::pull, Transport::store}) {
    Runner runner(3, 2);
    RunOptions options;
    options.repeats = kCalls / 2;
    Case c = stress_case(GetParam(), 3, 48, 64, 4);
    c.options.transport = transport;
    expect_clean(runner, {c}, options);
  }
}

TEST_P(Stress, RoutesWithRelaysStayRightUnderStragglers) {
  points::hook = delay_at_random;
  for (const auto route : {RouteKind::ring, RouteKind::two_level}) {
    Runner runner(4, 2);
    RunOptions options;
    options.repeats = kCalls / 20;
    Case c = stress_case(GetParam(), 4, 37, 48, 32);
    c.options.route = route;
    if (route == RouteKind::two_level) c.options.local_ranks = 2;
    expect_clean(runner, {c}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Stress,
                         ::testing::Values(Op::ag_gemm, Op::gemm_rs, Op::gemm_ar),
                         [](const auto& suite) { return std::string(name_of(suite.param)); });

std::vector<Case> mixed_cases() {
  return {stress_case(Op::ag_gemm, 4, 37, 48, 32), stress_case(Op::gemm_ar, 4, 22, 33, 16),
          stress_case(Op::gemm_rs, 4, 51, 16, 8), stress_case(Op::ag_gemm, 4, 9, 20, 40)};
}

TEST(StressMixed, OpsAndShapesThatShareSlotsStayRight) {
  points::poison_slots = true;
  points::hook = delay_at_random;
  Runner runner(4, 2);
  RunOptions options;
  options.repeats = kCalls / 16;
  expect_clean(runner, mixed_cases(), options);
  points::hook = nullptr;
  points::poison_slots = false;
}

TEST(StressMixed, CallNumbersMayWrap) {
  ASSERT_EQ(setenv("TILELACE_FIRST_EPOCH", "4294967040", 1), 0);  // 2^32 - 256
  Runner runner(4, 2);
  unsetenv("TILELACE_FIRST_EPOCH");
  RunOptions options;
  options.repeats = 75;  // of 8 calls
  expect_clean(runner, mixed_cases(), options);
}

TEST(Determinism, SameBitsInEveryRunAndOnEveryRank) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    std::map<std::pair<int, int>, std::vector<std::vector<float>>> seen;  // (rank, row) -> runs
    std::mutex mutex;
    RunOptions options;
    options.fill = Fill::normal;
    options.observe = [&](int rank, int, const std::vector<TensorView>& out) {
      const std::scoped_lock lock(mutex);
      for (int r = 0; r < out[0].rows; ++r) {
        std::vector<float> row;
        for (int c = 0; c < out[0].cols; ++c) row.push_back(get(out[0], r, c));
        seen[{op == Op::gemm_ar ? 0 : rank, r}].push_back(row);
      }
    };
    Case c = stress_case(op, 4, 37, 48, 32);
    c.calls.resize(1);
    points::hook = delay_at_random;
    for (int run = 0; run < 5; ++run) {
      Runner runner(4, 2);
      expect_clean(runner, {c}, options);
    }
    points::hook = nullptr;
    for (const auto& [where, rows] : seen) {
      for (const auto& row : rows) {
        EXPECT_EQ(std::memcmp(row.data(), rows[0].data(), row.size() * sizeof(float)), 0)
            << name_of(op) << " rank " << where.first << " row " << where.second;
      }
    }
  }
}

}  // namespace
}  // namespace tilelace::conformance
