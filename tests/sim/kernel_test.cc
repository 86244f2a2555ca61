// SPDX-License-Identifier: Apache-2.0
// Calls as GPU kernels run them: which plans are played, in which order, what a call waits for.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "plan/gpu/gpu_ways.h"
#include "plan/gpu/kernel_choice.h"
#include "sample_machine.h"
#include "sim/kernel_call.h"
#include "sim/predict.h"

namespace tilelace::sim {
namespace {

MachineModel with_kernels() {
  MachineModel m = sample_machine();
  m.compute.capability = 90;
  m.method.own_kernels = 1;
  m.method.sum_gbps = 20;
  return m;
}

Call call_on(Op op, int ranks, std::int64_t m, std::int64_t n = 4096, std::int64_t k = 2048) {
  return call_of({.op = op, .ranks = ranks, .m = m, .n = {n}, .k = k}, ranks);
}

/// Every fused plan that the planner has for the call.
std::vector<Plan> every_plan(const Call& call) {
  std::vector<Plan> all;
  for (const plan::CudaWay& way : plan::cuda_ways(call.problem, cuda_machine()))
    if (way.plan.path == Path::fused) all.push_back(way.plan);
  return all;
}

TEST(SimKernel, PlansAreThePlannersWhereThereAreKernels) {
  const Call call = call_on(Op::gemm_rs, 4, 4096);
  MachineModel m = with_kernels();
  for (const Plan& plan : fused_plans(m, call)) EXPECT_NE(plan.kernel, nullptr);
  const auto text = [](const Plan& plan) { return (std::ostringstream() << plan).str(); };
  const Plan own = make_plan(call.problem, cuda_machine());
  EXPECT_EQ(text(fused_plans(m, call).front()).substr(0, 80), text(own).substr(0, 80));
  m.compute.capability = 80;
  for (const Plan& plan : fused_plans(m, call)) EXPECT_EQ(plan.kernel, nullptr);
}

TEST(SimKernel, WhatIsAskedForIsPlayedWithoutKernels) {
  Choices choices;
  choices.transport = Transport::push;
  for (const Plan& plan : fused_plans(with_kernels(), call_on(Op::ag_gemm, 4, 4096), choices))
    EXPECT_EQ(plan.kernel, nullptr);
}

/// Whatever the plan: the call ends, every byte travels once, every row and column is stored once.
TEST(SimKernel, EveryPlanMovesEveryByte) {
  const MachineModel m = with_kernels();
  for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
    for (const int ranks : {2, 4}) {
      for (const std::int64_t rows : {256, 1000}) {
        const Call call = call_on(op, ranks, rows);
        std::size_t played = 0;
        for (const Plan& plan : every_plan(call)) {
          if (played++ % 40 != 0) continue;
          const Outcome o = simulate(m, call, plan);
          EXPECT_EQ(o.stuck, "") << plan;
          const double wide = op == Op::ag_gemm ? 2048 : 4096;
          const double bytes = (ranks - 1.0) * static_cast<double>(rows) * wide * 2;
          // Partials are whole tiles: the last one of a row has columns beyond the matrix.
          const double cols = std::ceil(4096.0 / plan.tile_n) * plan.tile_n / 4096;
          EXPECT_NEAR(o.bytes, op == Op::ag_gemm ? bytes : bytes * cols, 1) << plan;
          EXPECT_GT(o.end_us, gemm_time(m.compute, product_of(call.problem)).fixed_us);
        }
        EXPECT_GT(played, 0U);
      }
    }
  }
}

/// gemm_rs: a worker's remote tiles come first, and only its own wait for anything.
TEST(SimKernel, OwnTilesComeLastAndAddTheTermsOfPeers) {
  const Call call = call_on(Op::gemm_rs, 4, 4096);
  const Plan plan = fused_plans(with_kernels(), call).front();
  ASSERT_EQ(plan.path, Path::fused);
  const auto lists = record_kernel(call, plan);
  for (int r = 0; r < 4; ++r) {
    for (std::size_t lane = 1; lane < lists[static_cast<std::size_t>(r)].size(); ++lane) {
      bool own = false;
      for (const Step& s : lists[static_cast<std::size_t>(r)][lane]) {
        if (s.verb == Verb::compute) own = own || s.owner == r;
        EXPECT_TRUE(!own || s.verb != Verb::compute || s.owner == r);
        EXPECT_TRUE(own || (s.verb != Verb::wait && s.verb != Verb::reduce));
      }
    }
  }
}

/// ag_gemm: where shards join the walk behind a wave of own tiles, nobody begins with a wait.
TEST(SimKernel, OwnTilesComeFirstWhereShardsJoin) {
  const Call call = call_on(Op::ag_gemm, 2, 2048, 14336, 8192);
  std::size_t joined = 0;
  for (const Plan& plan : every_plan(call)) {
    const auto* way = plan::way_if<plan::AgGemmWay>(plan);
    if (way->joins.empty() || way->joins.front() < plan.workers) continue;
    ++joined;
    for (const auto& lists : record_kernel(call, plan)) {
      for (std::size_t lane = 1; lane < lists.size(); ++lane)
        EXPECT_NE(lists[lane].front().verb, Verb::wait) << plan;
    }
  }
  EXPECT_GT(joined, 0U);
}

/// A flag follows its stores once they have been acknowledged; a copy engine's is in order.
TEST(SimKernel, AFlagBehindStoresTakesThreeWays) {
  const MachineModel m = sample_machine();
  Costs costs;
  costs.row_bytes = costs.tile_row_bytes = 4200;
  costs.tile_us = [](int) { return 10.0; };
  const auto end_us = [&](int lane, const StepList& sender) {
    std::vector<std::vector<StepList>> lists(2, std::vector<StepList>(2));
    lists[0][static_cast<std::size_t>(lane + 1)] = sender;
    lists[1][1] = {{Verb::wait, -1, -1, 0, 0, -1, 7}};
    return play(m, 2, costs, lists).end_us;
  };
  const Step flag{Verb::signal, 1, -1, 0, 0, -1, 7};
  EXPECT_NEAR(
      end_us(0, {{Verb::compute, -1, 1, 0, 10, 0}, {Verb::store_partial, 1, 1, 0, 10, 0}, flag}),
      10 + 42e3 * 1e-3 / m.links.store_worker_gbps + 3 * m.links.latency_us, 1e-9);
  EXPECT_NEAR(end_us(-1, {{Verb::push, 1, 0, 0, 10}, flag}),
              m.links.copy_us + 42 / m.links.push_gbps + m.links.flag_us + m.links.latency_us,
              1e-9);
}

/// Warps that compute nothing send: the product does not wait for them.
TEST(SimKernel, SpareWarpsSendBesideTheProduct) {
  const MachineModel m = sample_machine();
  Costs costs;
  costs.row_bytes = 42e5;
  costs.tile_us = [](int) { return 10.0; };
  const StepList worker{{Verb::push, 1, 0, 0, 1}, {Verb::compute, -1, 0, 0, 64, 0}};
  const double blocked = play(m, 2, costs, {{{}, worker}, {{}, {}}}).end_us;
  costs.spare_senders = true;
  EXPECT_NEAR(blocked - play(m, 2, costs, {{{}, worker}, {{}, {}}}).end_us, 10, 1e-9);
}

/// Where multiprocessors wait, power lets the others go faster; traffic slows them down.
TEST(SimKernel, TheClockFollowsPower) {
  Compute c = with_kernels().compute;
  EXPECT_EQ(clock_gain(c, 200, 100, 0), 1);  // power does not hold it
  c.clock_boost = 1.2;
  EXPECT_NEAR(clock_gain(c, 110, 100, 0), std::cbrt(1.1), 1e-12);
  EXPECT_EQ(clock_gain(c, 1000, 100, 0), 1.2);
  EXPECT_NEAR(clock_gain(c, 100, 100, 10), 1 / std::cbrt(1.1), 1e-12);
}

TEST(SimKernel, AStragglerHasNoPowerToSpare) {
  MachineModel m = with_kernels();
  m.compute.clock_boost = 1.4;
  const Call call = call_on(Op::ag_gemm, 4, 4096);
  const Plan plan = fused_plans(m, call).front();
  Disturbance d;
  d.straggler = 1, d.straggle = 2;
  EXPECT_GT(simulate(m, call, plan, d).end_us, 1.7 * simulate(m, call, plan).end_us);
}

TEST(SimKernel, ASumBehindTheProductSaysWhatItTakes) {
  const MachineModel m = with_kernels();
  const Call call = call_on(Op::gemm_rs, 4, 16, 8192, 7168);
  const Prediction p = predict(m, call, {fused_plans(m, call), medium_plans(m, call)}, {}, true);
  EXPECT_EQ(p.plan.path, Path::unfused);
  EXPECT_NEAR(p.fused_us - p.gemm_us, 5 * m.links.latency_us, 2);
  EXPECT_EQ(p.fused.spans.size(), 8U);
}

}  // namespace
}  // namespace tilelace::sim
