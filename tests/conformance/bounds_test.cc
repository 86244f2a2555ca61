// SPDX-License-Identifier: Apache-2.0
// Random normal data against fp64, by the derived bounds; and tests of the checks themselves.
#include <gtest/gtest.h>

#include <cstring>

#include "dtypes.h"
#include "night.h"
#include "runner.h"

namespace tilelace::conformance {
namespace {

/// A ring or two levels round sums of several ranks on the way: their bound is another (the exact
/// tests cover them bit for bit), so here they send fp32.
void send_sums_unrounded(Case& c) {
  if (c.options.route != RouteKind::mesh && c.problem.op != Op::ag_gemm) {
    c.options.partials = kAccumulator;
  }
}

Case plain_case(Op op, int ranks) {
  Case c;
  c.problem.op = op;
  c.problem.ranks = ranks;
  c.problem.m = 24;
  c.problem.n = {40};
  c.problem.k = 48;
  c.problem.return_gathered = op == Op::ag_gemm;
  c.options.tile_m = 8;
  c.options.tile_n = 16;
  c.options.chunk_rows = 4;
  c.workers = 1;
  c.calls = {{24, {}}};
  c.seed = 5;
  c.name = "plain";
  return c;
}

class Bounds : public ::testing::TestWithParam<std::tuple<Op, DType>> {};

TEST_P(Bounds, HoldWithEveryActivation) {
  const auto [op, dtype] = GetParam();
  RunOptions options;
  options.fill = Fill::normal;
  for (const int ranks : {1, 2, 4, 5}) {
    Runner runner(ranks, 2);
    auto table = make_cases({.op = op,
                             .ranks = ranks,
                             .count = 24,
                             .seed = 21 + night_seed(),
                             .activations = true,
                             .calls = 1});
    for (auto& c : table.cases) {
      c.problem.dtype = dtype;
      c.workers = 2;
      send_sums_unrounded(c);
    }
    for (const auto& failure : runner.run(table.cases, options)) ADD_FAILURE() << failure;
  }
}

/// Large enough for the Frobenius bound to mean something; every element and the whole are judged.
TEST_P(Bounds, HoldForWholeMatrices) {
  const auto [op, dtype] = GetParam();
  RunOptions options;
  options.fill = Fill::normal;
  Runner runner(4, 1);
  Case c = plain_case(op, 4);
  c.problem.dtype = dtype;
  c.problem.m = 257;
  c.problem.n = {130};
  c.problem.k = 96;
  c.calls = {{257, {}}, {200, {}}};
  Case unrounded = c;
  unrounded.options.partials = kAccumulator;
  for (const auto& failure : runner.run({c, unrounded}, options)) ADD_FAILURE() << failure;
}

INSTANTIATE_TEST_SUITE_P(Conformance, Bounds,
                         ::testing::Combine(::testing::Values(Op::ag_gemm, Op::gemm_rs,
                                                              Op::gemm_ar),
                                            ::testing::ValuesIn(all_dtypes())),
                         [](const auto& suite) {
                           return std::string(name_of(std::get<0>(suite.param))) + "_" +
                                  std::string(name_of(std::get<1>(suite.param)));
                         });

TEST(TestOfTheTest, DroppingAnyRanksPartFailsBothChecks) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    for (const Fill fill : {Fill::exact, Fill::normal}) {
      Runner runner(4, 1);
      RunOptions options;
      options.fill = fill;
      EXPECT_TRUE(runner.run({plain_case(op, 4)}, options).empty());
      for (int rank = 0; rank < 4; ++rank) {
        options.drop_rank = rank;
        EXPECT_FALSE(runner.run({plain_case(op, 4)}, options).empty())
            << name_of(op) << " without rank " << rank << " passed";
      }
    }
  }
}

/// Spoils the result after the call, before it is judged.
void expect_caught(const char* what, void (*spoil)(const TensorView&)) {
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    Runner runner(4, 1);
    RunOptions options;
    options.observe = [spoil](int rank, int, const std::vector<TensorView>& out) {
      if (rank == 2) spoil(out[0]);
    };
    EXPECT_FALSE(runner.run({plain_case(op, 4)}, options).empty()) << name_of(op) << ": " << what;
  }
}

TEST(TestOfTheTest, ALostPieceOf16BytesIsCaught) {
  expect_caught("lost", [](const TensorView& t) { std::memset(at(t, 3, 8), 0, 16); });
}

TEST(TestOfTheTest, SwappedPiecesOf16BytesAreCaught) {
  expect_caught("swapped", [](const TensorView& t) {
    std::swap_ranges(at(t, 3, 8), at(t, 3, 8) + 16, at(t, 4, 16));
  });
}

TEST(TestOfTheTest, ANegativeZeroIsCaught) {
  expect_caught("-0", [](const TensorView& t) {
    for (std::int64_t row = 0; row < t.rows; ++row)
      for (std::int64_t col = 0; col < t.cols; ++col)
        if (get(t, row, col) == 0) return set(t, row, col, -0.0F);
  });
}

TEST(TestOfTheTest, AWriteBesideTheResultIsCaught) {
  expect_caught("slack", [](const TensorView& t) { *(at(t, 0, 0) - 1) = std::byte{0}; });
}

}  // namespace
}  // namespace tilelace::conformance
