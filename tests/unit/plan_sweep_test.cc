// SPDX-License-Identifier: Apache-2.0
// Any problem has a plan, or an error that says why. Plans keep to what calls have room for, and
// their own choices, asked for, give the same plan: a prediction that is no number would break
// that.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cuda_plans.h"
#include "plan/base/schedules.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

Index extent(std::mt19937_64& rng, int bits) {
  const Index most = Index{1} << (rng() % static_cast<unsigned>(bits));
  return rng() % 3 == 0 ? most : 1 + static_cast<Index>(rng() % static_cast<std::uint64_t>(most));
}

std::vector<std::int64_t> uneven(std::mt19937_64& rng, std::int64_t m, int ranks) {
  std::vector<std::int64_t> rows;
  for (int r = 1; r < ranks; ++r) {
    rows.push_back(static_cast<Index>(rng() % static_cast<std::uint64_t>(m + 1)) *
                   static_cast<Index>(rng() % 2));
    m -= rows.back();
  }
  rows.push_back(m);
  return rows;
}

Problem random_problem(std::mt19937_64& rng) {
  Problem p;
  p.op = static_cast<Op>(rng() % 3);
  p.ranks = 1 + static_cast<int>(rng() % 8);
  p.m = extent(rng, 24);
  p.k = 8 * extent(rng, 14);
  const std::size_t weights = p.op == Op::ag_gemm ? 1 + rng() % 4 : 1;
  for (std::size_t i = 0; i < weights; ++i) p.n.push_back(8 * extent(rng, 14));
  if (p.op != Op::gemm_ar && rng() % 3 == 0) p.rows = uneven(rng, p.m, p.ranks);
  return p;
}

Machine random_machine(std::mt19937_64& rng) {
  Machine m = cuda_machine(2 + static_cast<int>(rng() % 147));
  m.shared_device = rng() % 3 == 0;
  return m;
}

/// Of a fused plan whose partials have flags.
Index flags_of(const Problem& p, const Plan& plan) {
  const GemmTile& tile = gemm_of(plan.kernel->way).tile;
  const Index parts = tile.cluster() * (tile.pingpong ? 1 : tile.groups);
  if (p.op == Op::gemm_ar)
    return parts * gemm_ar_order(p, way_of<GemmArWay>(plan), 0).num_partials();
  const auto borders = borders_of(p);
  const Index rows = ceil_div(split_of(p, borders).max_rows(), tile.worker_rows());
  return parts * p.ranks * rows * ceil_div(p.n.front(), tile.worker_cols());
}

PlanOptions own_choices(const Plan& plan) {
  PlanOptions o;
  o.path = plan.path;
  o.route = plan.route;
  o.transport = plan.transport;
  o.straddle = plan.straddle;
  o.tile_m = plan.tile_m;
  o.tile_n = plan.tile_n;
  if (plan.op == Op::ag_gemm)
    o.chunk_rows = plan.chunk_rows;
  else
    o.partials = plan.partials;
  return o;
}

void check(const Problem& p, const Machine& machine, const Plan& plan) {
  const GemmPlan& gemm = gemm_of(plan.kernel->way);
  EXPECT_LE(gemm.workers * gemm.tile.cluster(), machine.multiprocessors * gemm.tile.per_sm);
  EXPECT_GT(plan.staging_bytes, 0);
  EXPECT_EQ(plan.reason.find("predicted -"), std::string::npos) << plan.reason;
  EXPECT_EQ(plan.reason.find("nan"), std::string::npos) << plan.reason;
  if (p.op != Op::ag_gemm && plan.path == Path::fused && way_if<KeptPartialsWay>(plan) == nullptr) {
    EXPECT_LE(flags_of(p, plan), kMaxPartialFlags);
  }
  Plan again = make_plan(p, machine, own_choices(plan));
  again.reason = plan.reason;
  again.rejected = plan.rejected;
  EXPECT_EQ(again, plan) << again;
}

TEST(PlanSweep, EveryProblemHasAPlanThatFits) {
  std::mt19937_64 rng(3);
  int plans = 0;
  for (int i = 0; i < 300; ++i) {
    const Problem p = random_problem(rng);
    const Machine machine = random_machine(rng);
    try {
      const Plan plan = make_plan(p, machine);
      check(p, machine, plan);
      ++plans;
    } catch (const Error& e) {
      EXPECT_TRUE(says(e.what(), "got ") && says(e.what(), "expected ")) << e.what();
    }
    if (HasFailure()) FAIL() << p << "; " << machine;
  }
  EXPECT_GT(plans, 250);
}

/// Candidates whose prediction is no number are not sorted.
TEST(PlanSweep, OfOneRankTheFastestIsTaken) {
  const Machine machine = cuda_machine();
  const Problem p = cuda_problem(Op::gemm_ar, 1, 258, 872, 736);
  for (const GemmArWay& c : gemm_ar_candidates(p))
    EXPECT_TRUE(std::isfinite(c.predicted_us)) << c.gemm;
  check(p, machine, make_plan(p, machine));
}

TEST(PlanSweep, FusedSumsHaveFlags) {
  Problem uneven = cuda_problem(Op::gemm_rs, 8, 65536, 8192, 4096);
  uneven.rows = {65536, 0, 0, 0, 0, 0, 0, 0};
  for (const Problem& p : {uneven, cuda_problem(Op::gemm_rs, 8, 524288, 8192, 4096),
                           cuda_problem(Op::gemm_ar, 4, 524288, 8192, 4096)})
    check(p, cuda_machine(), make_plan(p, cuda_machine()));
}

TEST(PlanSweep, ANarrowWeightBeforeAWideOneCostsLittle) {
  const auto tile = [](std::vector<std::int64_t> n) {
    Problem p = cuda_problem(Op::ag_gemm, 4, 4096, 8, 4096);
    p.n = std::move(n);
    return tile_of(make_plan(p, cuda_machine()));
  };
  EXPECT_EQ(tile({64, 28672}), tile({28672, 64}));
}

TEST(PlanSweep, ChunksThatKernelsCannotCountAreRefused) {
  PlanOptions o;
  o.chunk_rows = std::int64_t{1} << 32;  // 0 in 32 bits
  const std::string text = error_of(cuda_problem(Op::ag_gemm, 4, 4096, 7168, 8192), o);
  EXPECT_TRUE(
      says(text, "got 4294967296, expected at least 1 (up to 1024 chunks per shard) and at most "))
      << text;
}

}  // namespace
}  // namespace tilelace::plan
