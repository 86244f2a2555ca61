// SPDX-License-Identifier: Apache-2.0
// What a simulated call takes: by hand on small calls, by its limits on large ones.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include "sample_machine.h"
#include "sim/predict.h"
#include "tilelace/error.h"

namespace tilelace::sim {
namespace {

Problem problem(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.op = op, .ranks = ranks, .m = m, .n = {n}, .k = k};
}

MachineModel tree() {
  MachineModel m = sample_machine();
  m.name = "tree";
  m.links.topology = Topology::tree;
  m.links.push_gbps = m.links.mesh_gbps = m.links.pull_gbps = m.links.store_gbps = 20;
  m.links.uplink_gbps = 40;
  m.links.socket_gbps = 9;
  return m;
}

MachineModel cluster() {
  MachineModel m = sample_machine();
  m.name = "cluster";
  m.max_nodes = 128;
  m.network.nics = 8;
  return m;
}

TEST(SimFabric, TransfersToOneRankTakeTurns) {
  const MachineModel m = sample_machine();
  Fabric fabric(m, 3, 3);
  const double each = 380e6 * 1e-3 / m.links.push_gbps;
  EXPECT_DOUBLE_EQ(fabric.send(0, 2, 380e6, Mover::copy_push, 0, 0).end_us, each);
  EXPECT_DOUBLE_EQ(fabric.send(1, 2, 380e6, Mover::copy_push, 0, 0).end_us, 2 * each);
  EXPECT_DOUBLE_EQ(fabric.send(2, 0, 380e6, Mover::copy_push, 0, 0).end_us, each);
}

TEST(SimFabric, RanksShareUplinkAndSocketOfATree) {
  const MachineModel m = tree();
  Fabric fabric(m, 8, 8);
  EXPECT_DOUBLE_EQ(fabric.send(0, 1, 20e6, Mover::copy_push, 0, 0).end_us, 1000);
  const double crossing = 20e6 * 1e-3 / m.links.socket_gbps;
  EXPECT_DOUBLE_EQ(fabric.send(2, 6, 20e6, Mover::copy_push, 0, 0).end_us, crossing);
  EXPECT_DOUBLE_EQ(fabric.send(3, 7, 20e6, Mover::copy_push, 0, 0).end_us, 2 * crossing);
  EXPECT_DOUBLE_EQ(fabric.send(6, 2, 20e6, Mover::copy_push, 0, 0).end_us, crossing);
}

TEST(SimFabric, AWireIsFreeUntilItIsTaken) {
  const MachineModel m = tree();
  Fabric fabric(m, 8, 8);
  const double crossing = 20e6 * 1e-3 / m.links.socket_gbps;
  fabric.send(0, 4, 20e6, Mover::copy_push, 0, 0);
  // The second one reaches rank 5 only when the socket is free: until then rank 6 may send to it.
  EXPECT_DOUBLE_EQ(fabric.send(1, 5, 20e6, Mover::copy_push, 0, 0).end_us, 2 * crossing);
  EXPECT_DOUBLE_EQ(fabric.send(6, 5, 20e6, Mover::copy_push, 0, 0).end_us, 1000);
  // What was taken stays taken, also by who begins later.
  fabric.send(7, 6, 20e6, Mover::copy_push, 0, 5000);
  EXPECT_DOUBLE_EQ(fabric.send(4, 6, 20e6, Mover::copy_push, 10, 4500).end_us, 7000);
}

TEST(SimFabric, NodesAreReachedOverNics) {
  MachineModel m = cluster();
  m.network.nics = 2;
  Fabric fabric(m, 16, 8);
  const double each = 50e6 * 1e-3 / m.network.nic_gbps;
  EXPECT_DOUBLE_EQ(fabric.send(0, 8, 50e6, Mover::copy_push, 0, 0).end_us, each);
  EXPECT_DOUBLE_EQ(fabric.send(3, 11, 50e6, Mover::copy_push, 0, 0).end_us, 2 * each);
  EXPECT_DOUBLE_EQ(fabric.send(4, 12, 50e6, Mover::copy_push, 0, 0).end_us, each);
}

TEST(SimPlay, OneRankTakesItsTilesAndNoMore) {
  Costs costs;
  costs.tile_us = [](int) { return 10.0; };
  costs.launch_us = 4;
  costs.resident = 2;
  StepList worker(2, Step{Verb::compute, -1, 0, 0, 64, 0});
  // Three workers, of which two fit: the third begins when the first one ends.
  const Outcome o = play(sample_machine(), 1, costs, {{{}, worker, worker, worker}});
  EXPECT_DOUBLE_EQ(o.end_us, 4 + 20 + 20);
  EXPECT_DOUBLE_EQ(o.compute_us, 60);
}

TEST(SimPlay, AWaitEndsOneLatencyAfterItsSignal) {
  Costs costs;
  costs.tile_us = [](int) { return 10.0; };
  const StepList sender{{Verb::compute, -1, 0, 0, 64, 0}, {Verb::signal, 1, -1, 0, 0, -1, 7}};
  const StepList reader{{Verb::wait, -1, -1, 0, 0, -1, 7}, {Verb::compute, -1, 0, 0, 64, 0}};
  const MachineModel m = sample_machine();
  const Outcome o = play(m, 2, costs, {{{}, sender}, {{}, reader}});
  EXPECT_DOUBLE_EQ(o.end_us, 10 + m.links.latency_us + 10);
  EXPECT_DOUBLE_EQ(o.wait_us, 10 + m.links.latency_us);
}

/// A flag goes behind its copy and before the next one, on the engine that carries both.
TEST(SimPlay, AFlagAcrossSocketsHoldsUpWhoRaisesIt) {
  MachineModel m = tree();
  m.links.copy_engines = 2;
  m.links.socket_flag_us = 50;
  Costs costs;
  costs.row_bytes = 9e5;
  const auto end_us = [&](int to, int lane) {
    const StepList sender{{Verb::push, to, 0, 0, 1},
                          {Verb::signal, to, -1, 0, 0, -1, 7},
                          {Verb::push, to, 0, 1, 1},
                          {Verb::signal, to, -1, 0, 0, -1, 8}};
    std::vector<std::vector<StepList>> lists(8, std::vector<StepList>(2));
    lists[1][static_cast<std::size_t>(lane + 1)] = sender;
    lists[static_cast<std::size_t>(to)][1] = {{Verb::wait, -1, -1, 0, 0, -1, 8}};
    return play(m, 8, costs, lists).end_us;
  };
  const Links& l = m.links;
  EXPECT_DOUBLE_EQ(end_us(5, -1),
                   2 * (l.copy_us + 900 / l.socket_gbps + l.flag_us + 50) + l.latency_us);
  EXPECT_DOUBLE_EQ(end_us(2, -1), 2 * (l.copy_us + 900 / l.push_gbps + l.flag_us) + l.latency_us);
  const double worker = end_us(5, 0);
  m.links.socket_flag_us = 0;
  EXPECT_DOUBLE_EQ(end_us(5, -1), 2 * (l.copy_us + 900 / l.socket_gbps + l.flag_us) + l.latency_us);
  EXPECT_GE(worker, end_us(5, 0) + 50);
}

TEST(SimPlay, SaysWhoWaitsForever) {
  Costs costs;
  costs.tile_us = [](int) { return 1.0; };
  const Outcome o = play(sample_machine(), 1, costs, {{{}, {{Verb::wait, -1, -1, 0, 0, -1, 3}}}});
  EXPECT_EQ(o.stuck, "rank 0 worker 0 at step 0 waits for flag 3");
}

TEST(SimPlay, SameInputSameOutcomeAndSeedsDiffer) {
  const MachineModel m = sample_machine();
  const Call call = call_of(problem(Op::gemm_rs, 4, 1000, 4096, 2048), 4);
  const Plan plan = fused_plans(m, call).front();
  Disturbance d;
  EXPECT_EQ(simulate(m, call, plan), simulate(m, call, plan));
  d.start_us = 30, d.tile_noise = 0.2;
  const Outcome one = simulate(m, call, plan, d);
  EXPECT_EQ(one, simulate(m, call, plan, d));
  d.seed = 2;
  EXPECT_NE(one.end_us, simulate(m, call, plan, d).end_us);
}

TEST(SimPlay, AStragglerHoldsUpAll) {
  const MachineModel m = sample_machine();
  const Call call = call_of(problem(Op::gemm_ar, 4, 4096, 4096, 4096), 4);
  const Plan plan = fused_plans(m, call).front();
  Disturbance d;
  d.straggler = 2, d.straggle = 2;
  const Outcome calm = simulate(m, call, plan), held = simulate(m, call, plan, d);
  EXPECT_GT(held.end_us, 1.3 * calm.end_us);
  EXPECT_GT(held.rank_end_us[0], 1.2 * calm.rank_end_us[0]);
}

/// No plan may beat what its bytes and its products take at least.
class SimLimits : public testing::TestWithParam<Op> {};

TEST_P(SimLimits, NothingIsFasterThanThey) {
  const Op op = GetParam();
  for (const MachineModel& m : {sample_machine(), tree()}) {
    for (const int ranks : {2, 4, 8}) {
      for (const std::int64_t rows : {1, 64, 500, 2048}) {
        const Call call = call_of(problem(op, ranks, rows, 4096, 3072), ranks);
        const Prediction p = predict(m, call);
        const double wide = op == Op::ag_gemm ? 3072 : 4096;
        const double wire = static_cast<double>(rows / ranks) * (ranks - 1) * wide * 2e-3 /
                            std::max(m.links.push_gbps, m.links.store_gbps);
        EXPECT_GE(p.fused_us, wire);
        EXPECT_GE(p.medium_us, wire);
        EXPECT_GE(p.unfused_us, p.gemm_us);
        // What is exposed of launch and first loads may differ by microseconds.
        EXPECT_GE(p.fused_us, 0.97 * p.gemm_us) << name_of(op) << ranks << " m " << rows;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ops, SimLimits, testing::Values(Op::ag_gemm, Op::gemm_rs, Op::gemm_ar),
                         [](const auto& op) { return std::string(name_of(op.param)); });

TEST(SimPredict, EveryByteAndTileOnce) {
  const MachineModel m = sample_machine();
  const Call call = call_of(problem(Op::ag_gemm, 4, 2048, 4096, 3072), 4);
  for (const Plan& plan : fused_plans(m, call)) {
    const Outcome o = simulate(m, call, plan);
    EXPECT_DOUBLE_EQ(o.bytes, 3.0 * 2048 * 3072 * 2) << plan.chunk_rows;
    const auto tiles = o.verbs[static_cast<std::size_t>(Verb::store)];
    EXPECT_EQ(tiles, 4 * ((512 + plan.tile_m - 1) / plan.tile_m) * 4 *
                         ((4096 + plan.tile_n - 1) / plan.tile_n));
  }
}

TEST(SimPredict, ATreeWantsFewCrossings) {
  const MachineModel m = tree();
  const Call call = call_of(problem(Op::ag_gemm, 8, 4096, 6144, 12288), 8);
  Choices mesh;
  mesh.route = RouteKind::mesh;
  const Prediction forced = predict(m, call, {fused_plans(m, call, mesh), medium_plans(m, call)});
  EXPECT_NE(predict(m, call).plan.route, RouteKind::mesh);
  EXPECT_GT(forced.fused_us, 1.5 * predict(m, call).fused_us);
}

TEST(SimPredict, RefusesWhatTheMachineCannotHold) {
  const MachineModel m = sample_machine();
  const auto text = [&](const Call& call) -> std::string {
    try {
      check_call(m, call);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(text(call_of(problem(Op::ag_gemm, 16, 8, 8, 8), 16)).find("--tp: got 16"),
            std::string::npos);
  EXPECT_NE(text(call_of(problem(Op::ag_gemm, 16, 8, 8, 8), 8)).find("--nodes: got 2"),
            std::string::npos);
  EXPECT_NE(text(call_of(problem(Op::ag_gemm, 8, 1 << 25, 8, 8), 8)).find("m: got"),
            std::string::npos);
  EXPECT_EQ(text(call_of(problem(Op::ag_gemm, 8, 8, 8, 8), 8)), "");
  const Call large = call_of(problem(Op::ag_gemm, 8, 1 << 24, 4096, 8), 8);
  Choices fine;
  fine.chunk_rows = 1;
  EXPECT_THROW(simulate(m, large, fused_plans(m, large, fine).front()), Error);
  fine = {};
  fine.tile = Tile{1, 1};
  EXPECT_THROW(simulate(m, large, fused_plans(m, large, fine).front()), Error);
  MachineModel bad = sample_machine();
  bad.name = "bad";
  bad.compute.peak_tflops = NAN;
  EXPECT_THROW(check_machine(bad), Error);
}

/// The bar is 10 s on one core; the figure is printed.
TEST(SimPredict, AThousandRanksOverNodes) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "one thread's work, 250 MB of lists";
#endif
  const MachineModel m = cluster();
  const Call call = call_of(problem(Op::ag_gemm, 1024, 65536, 48, 12288), 8);
  const Plan plan = fused_plans(m, call).front();
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = simulate(m, call, plan);
  const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << "1,024 ranks of 128 nodes, ag_gemm: " << o.steps << " steps in " << s << " s\n";
  EXPECT_EQ(o.stuck, "");
  EXPECT_EQ(plan.route, RouteKind::two_level);
  EXPECT_DOUBLE_EQ(o.bytes, 1023.0 * 65536 * 12288 * 2);
}

TEST(SimCall, TilesKeepTheirWidthWhereAWorkerStandsForSeveral) {
  MachineModel m = sample_machine();
  m.name = "m";
  const Call call = call_of(problem(Op::gemm_rs, 8, 4096, 4096, 512), 8);
  Choices choices;
  choices.tile = Tile{1, 1};
  for (const Plan& plan : fused_plans(m, call, choices)) {
    EXPECT_LT(plan.workers, 132);
    EXPECT_EQ(plan.tile_n, 132 / plan.workers);
    EXPECT_GT(costs_of(m, call, plan).tile_us(1), 0);
  }
}

}  // namespace
}  // namespace tilelace::sim
