// SPDX-License-Identifier: Apache-2.0
// Plans of gemm_rs and gemm_ar on GPU ranks; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "cuda_plans.h"
#include "plan/base/schedules.h"
#include "plan/gpu/way_choice.h"
#include "plan/words/agreement.h"

namespace tilelace::plan {
namespace {

TEST(CudaReducePlan, OfManyRowsIsFused) {
  for (const std::int64_t m : {2048, 8192}) {
    const Plan plan = make_plan(sum_problem(Op::gemm_rs, m), cuda_machine());
    EXPECT_EQ(plan.path, Path::fused) << plan.reason;
    EXPECT_EQ(plan.transport, Transport::store);
    const GemmRsWay best = gemm_rs_candidates(sum_problem(Op::gemm_rs, m)).front();
    EXPECT_EQ(plan.kernel->way.index(), KernelWay(best).index()) << m;
    EXPECT_EQ(choice_bytes(plan), choice_bytes(plan_of(sum_problem(Op::gemm_rs, m), best))) << m;
    EXPECT_TRUE(std::any_of(plan.rejected.begin(), plan.rejected.end(), [](const std::string& r) {
      return r.starts_with("unfused pull: predicted ");
    }));
  }
}

TEST(CudaReducePlan, OfManyRowsOfAllReduceIsFused) {
  for (const std::int64_t m : {512, 1024, 8192}) {
    const Problem p = sum_problem(Op::gemm_ar, m);
    const Plan plan = make_plan(p, cuda_machine());
    EXPECT_EQ(plan.path, Path::fused) << plan.reason;
    EXPECT_TRUE(says(plan.reason, "symmetric memory")) << plan.reason;
    const GemmArWay stored = gemm_ar_candidates(p).front();
    const KeptPartialsWay pulled = gemm_sums_candidates(p).front();
    const bool pulls = pulled.predicted_us < stored.predicted_us;
    EXPECT_EQ(choice_bytes(plan), choice_bytes(pulls ? plan_of(p, pulled) : plan_of(p, stored)));
  }
}

TEST(CudaReducePlan, OfPushedSumsHasShots) {
  PlanOptions o;
  o.transport = Transport::push;
  for (const std::int64_t m : {16, 256}) {
    const Plan plan = make_plan(sum_problem(Op::gemm_ar, m), cuda_machine(), o);
    EXPECT_EQ(plan.path, Path::unfused);
    EXPECT_EQ(plan.transport, Transport::push);
    EXPECT_EQ(way_of<UnfusedSumWay>(plan).shots, m == 16 ? 1 : 2);
    EXPECT_EQ(way_of<UnfusedSumWay>(plan).lines, m == 16);
    std::ostringstream words;
    words << plan;
    EXPECT_EQ(says(words.str(), " lines "), m == 16) << plan;
  }
  const Plan scatter = make_plan(sum_problem(Op::gemm_rs, 256), cuda_machine(), o);
  EXPECT_EQ(way_of<UnfusedSumWay>(scatter).shots, 1);
  EXPECT_TRUE(says(error_of(sum_problem(Op::gemm_rs, 4096), o), "push (few rows"));
}

TEST(CudaReducePlan, SumsWithAsManyCtasAsTheRowsFill) {
  const Problem few = sum_problem(Op::gemm_rs, 16);
  const auto pulled = [](const Problem& p) {
    const auto all = gemm_reduce_candidates(p);
    return *std::find_if(all.begin(), all.end(),
                         [](const UnfusedSumWay& c) { return c.transport == Transport::pull; });
  };
  const auto schedule = [&](const Problem& p, int rank) {
    return reduce_rows_schedule(p, pulled(p), rank);
  };
  EXPECT_EQ(schedule(few, 0).workers, 8);  // 4 rows of 1024 units, 512 a CTA
  EXPECT_EQ(schedule(few, 0).rows[0], (schedule::RowRange{0, 4 * 1024}));
  const Problem many = sum_problem(Op::gemm_rs, 8192);
  EXPECT_EQ(schedule(many, 3).workers, 132);
  EXPECT_EQ(schedule(many, 3).rows[3].end, 8192 * 1024);
  const UnfusedSumWay small = gemm_reduce_candidates(many, {66}).front();
  EXPECT_LE(reduce_rows_schedule(many, small, 0).workers, 66);
}

int by_cublas(const Problem& p, const GemmMachine& machine) {
  return static_cast<int>(std::ranges::count_if(
      gemm_reduce_candidates(p, machine), [](const UnfusedSumWay& c) { return c.cublas > 0; }));
}

TEST(CudaReducePlan, CublasMultipliesForEverySum) {
  const Problem p = sum_problem(Op::gemm_ar, 333);
  GemmMachine machine;
  machine.cublas = true;
  std::set<std::string> without, with;
  for (const UnfusedSumWay& c : gemm_reduce_candidates(p, machine)) {
    if (c.cublas == 0) without.insert(kind_of(p.op, c));
    if (c.cublas > 0) with.insert(kind_of(p.op, c));
    EXPECT_GT(predicted_us_of(c), 0);
  }
  std::set<std::string> expected;
  for (const std::string& kind : without) expected.insert(kind + " with cublas");
  EXPECT_EQ(with, expected);
  EXPECT_EQ(by_cublas(p, machine), kCublasAlgorithms * std::ssize(with));
}

/// It would take the SMs of others.
TEST(CudaReducePlan, NotOnAShareNorWhereItIsMissing) {
  const Problem p = sum_problem(Op::gemm_ar, 333);
  GemmMachine machine;
  EXPECT_EQ(by_cublas(p, machine), 0);
  machine.cublas = machine.shared = true;
  machine.multiprocessors = 66;
  EXPECT_EQ(by_cublas(p, machine), 0);
}

TEST(CudaReducePlan, PredictionsPreferCublasForAFewHundredRows) {
  PlanOptions unfused;
  unfused.path = Path::unfused;
  const auto algorithm = [&](Op op, std::int64_t m, const Machine& machine) {
    return way_of<UnfusedSumWay>(make_plan(sum_problem(op, m), machine, unfused)).cublas;
  };
  Machine without = cuda_machine();
  without.cublas = false;
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    for (const std::int64_t m : {1, 64, 96, 400, 512, 4096})
      EXPECT_EQ(algorithm(op, m, cuda_machine()), 0);
    for (const std::int64_t m : {97, 333, 399}) {
      EXPECT_EQ(algorithm(op, m, cuda_machine()), 1);
      EXPECT_EQ(algorithm(op, m, without), 0);
    }
  }
}

TEST(CudaReducePlan, OfNoRowsHasNoKernel) {
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    const Plan plan = make_plan(sum_problem(op, 0), cuda_machine());
    EXPECT_EQ(plan.kernel, nullptr);
    EXPECT_EQ(plan.op, op);
    EXPECT_EQ(plan.reason, "no rows: the ranks only agree");
  }
}

TEST(CudaReducePlan, StagingHoldsThePartialsOfEveryPath) {
  const Problem rs = sum_problem(Op::gemm_rs, 1000);
  const std::int64_t sums = 1000 * 8192 * 2 + (16 << 20);  // few enough to be pushed
  const Plan plan = make_plan(rs, cuda_machine());
  EXPECT_EQ(gemm_reduce_staging_bytes(rs), sums);
  EXPECT_EQ(gemm_reduce_staging_bytes(sum_problem(Op::gemm_rs, 4000)), 4000 * 8192 * 2);
  EXPECT_EQ(plan.staging_bytes,
            4 * (1 << 17) + std::max(sums, gemm_rs_staging_bytes(rs)) + gemm_reduce_line_bytes(rs));
  EXPECT_EQ(make_plan(rs, cuda_machine(), path(Path::unfused)).staging_bytes, plan.staging_bytes);
  const Problem ar = sum_problem(Op::gemm_ar, 1000);
  EXPECT_EQ(make_plan(ar, cuda_machine()).staging_bytes,
            8 * (1 << 17) + 4 * gemm_sums_counts(ar) + std::max(sums, gemm_ar_staging_bytes(ar)) +
                gemm_reduce_line_bytes(ar));
}

/// Only where they are asked for.
TEST(CudaReducePlan, PartialsAreCopiedWhenAsked) {
  for (const std::int64_t m : {1, 64, 1000, 4096}) {
    const Problem p = sum_problem(Op::gemm_rs, m);
    const Plan plan = make_plan(p, cuda_machine(), path(Path::medium));
    EXPECT_EQ(plan.path, Path::medium);
    EXPECT_EQ(plan.route, RouteKind::mesh);
    EXPECT_EQ(plan.transport, Transport::push);
    const CopiedPartialsWay best = copied_partials_candidates(p).front();
    EXPECT_EQ(choice_bytes(plan), choice_bytes(plan_of(p, best)));
    EXPECT_GE(plan.staging_bytes, copied_staging_bytes(p));
    EXPECT_EQ(way_if<CopiedPartialsWay>(make_plan(p, cuda_machine())), nullptr) << m;
  }
  const Plan empty = make_plan(sum_problem(Op::gemm_rs, 0), cuda_machine(), path(Path::medium));
  EXPECT_EQ(empty.path, Path::medium);
  EXPECT_EQ(empty.transport, Transport::push);
}

TEST(CudaReducePlan, StagingOfCopiedPartialsHoldsWhatComesIn) {
  Problem p = sum_problem(Op::gemm_rs, 1000);
  const std::int64_t row = 8192 * 2;
  EXPECT_EQ(copied_pitch(p), 250 * row);
  EXPECT_EQ(copied_staging_bytes(p), (1000 + 3 * 250) * row);
  p.rows = {700, 0, 200, 100};
  EXPECT_EQ(copied_staging_bytes(p), (1000 + 3 * 700) * row);
  for (const CopiedPartialsWay& plan : copied_partials_candidates(p))
    EXPECT_EQ(plan.gemm.split_tiles, 0) << plan.gemm;
}

TEST(CudaReducePlan, AResidualIsPartOfWhatMustAgree) {
  Problem p = sum_problem(Op::gemm_rs, 512);
  const Plan plan = make_plan(p, cuda_machine());
  const auto without = agreement_hash(p, plan);
  p.residual = true;
  EXPECT_EQ(make_plan(p, cuda_machine()), plan);
  EXPECT_NE(agreement_hash(p, plan), without);
  p.activation = Activation::gelu;
  EXPECT_TRUE(says(error_of(p), "activation with a residual: got gelu, expected none"));
  p.op = Op::ag_gemm;
  EXPECT_TRUE(says(error_of(p), "ag_gemm: residual: got one, expected none"));
}

TEST(CudaReducePlan, PathsAndTransportsDisagree) {
  const Problem p = sum_problem(Op::gemm_ar, 512);
  PlanOptions one, two;
  one.transport = Transport::pull;
  two.transport = Transport::store;
  EXPECT_NE(agreement_hash(p, make_plan(p, cuda_machine(), one)),
            agreement_hash(p, make_plan(p, cuda_machine(), two)));
}

TEST(CudaReducePlan, TakesOptions) {
  PlanOptions o;
  o.chunk_rows = 7;
  const Plan plan = make_plan(sum_problem(Op::gemm_rs, 4096), cuda_machine(), o);
  EXPECT_EQ(plan.path, Path::unfused);  // the fused kernel has no chunks
  EXPECT_EQ(plan.chunk_rows, 7);
  EXPECT_TRUE(says(plan.reason, "of what was asked for")) << plan.reason;
}

TEST(CudaReducePlan, ErrorsNameWhatThereIs) {
  const Problem rs = sum_problem(Op::gemm_rs, 512), ar = sum_problem(Op::gemm_ar, 512);
  EXPECT_TRUE(says(error_of(ar, path(Path::medium)), "got medium, expected fused or unfused"));
  PlanOptions o;
  o.transport = Transport::nccl;
  EXPECT_TRUE(says(error_of(rs, o), "got nccl, expected push, pull or store"));
  o = path(Path::unfused);
  o.transport = Transport::store;
  EXPECT_TRUE(says(error_of(rs, o), "no plan on GPUs has"));
  o = {};
  o.partials = DType::fp16;
  EXPECT_TRUE(says(error_of(ar, o), "got fp16, expected the operands' type, bf16"));
  o.partials = DType::fp32;
  EXPECT_TRUE(says(error_of(rs, o), "got fp32, expected the operands' type, bf16"));
  o = path(Path::fused);
  o.transport = Transport::push;
  EXPECT_TRUE(says(error_of(ar, o), "use fused with pull or store"));
  o = path(Path::medium);
  o.transport = Transport::pull;
  EXPECT_TRUE(says(error_of(rs, o), "with path medium: got pull, expected push"));
  o.transport = {};
  o.chunk_rows = 8;
  EXPECT_TRUE(says(error_of(rs, o), "got 8, expected none: shards are copied whole"));
  o = path(Path::medium);
  o.straddle = true;
  EXPECT_TRUE(says(error_of(rs, o), "got 1, expected 0: only fused plans straddle"));
  o = {};
  o.route = RouteKind::ring;
  EXPECT_EQ(error_of(ar, o), "gemm_ar: route on GPUs: got ring, expected mesh");
  EXPECT_EQ(error_of(rs, o), "gemm_rs: route on GPUs: got ring, expected mesh");
  o = {};
  o.straddle = true;
  EXPECT_TRUE(says(error_of(ar, o), "straddle on GPUs"));
  Problem odd = rs;
  odd.n = {12};
  EXPECT_TRUE(says(error_of(odd), "n on GPUs: got 12, expected a multiple of 8"));
}

}  // namespace
}  // namespace tilelace::plan
