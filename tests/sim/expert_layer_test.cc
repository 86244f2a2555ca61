// SPDX-License-Identifier: Apache-2.0
// What a layer of experts takes: by hand on few tiles, by the dense product's model on many.
#include "sim/expert_layer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_plan.h"
#include "plan/sm90_grouped.h"
#include "sample_machine.h"
#include "tilelace/error.h"

namespace tilelace::sim {
namespace {

using plan::GroupedProduct;
using plan::GroupedShape;

/// Figures of the planner's own predictions.
plan::Hardware hardware() { return plan::hardware_of(plan::GemmMachine{}); }

GroupedTime time_of(const GroupedProduct& p, const std::vector<int>& rows) {
  return grouped_time(hardware(), p, plan::sm90_grouped_shape(p), rows);
}

MachineModel machine() {
  MachineModel m = sample_machine();
  m.compute.capability = 90;
  m.kernels = {.efficiency = 0.85,
               .l2_total_gbps = 13000,
               .l2_mb = 25,
               .memory_gbps = 4800,
               .worker_memory_gbps = 50,
               .power_tflops = 1200,
               .power_l2_gbps = 31000,
               .power_memory_gbps = 15000,
               .fixed_us = 3,
               .tile_us = 0.25,
               .call_us = 3};
  m.experts = {3000, 4000, 0, "nothing"};
  return m;
}

MoeLayer layer() {
  MoeLayer l;
  l.hidden = 2048, l.inner = 512, l.experts = 16, l.top_k = 4;
  return l;
}

TEST(GroupedShape, DependsOnRowsOfAnExpert) {
  const auto of = [](std::int64_t rows, std::int64_t n, std::int64_t k) {
    return plan::sm90_grouped_shape({rows * 8, n, k, 8, false, {}}).name;
  };
  EXPECT_EQ(of(24, 1024, 8192), "few");
  EXPECT_EQ(of(25, 1024, 8192), "many");
  EXPECT_EQ(of(256, 1088, 4096), "many");
}

TEST(GroupedShape, TilesCoverAllColumnsAndRowsPadSevenAtMost) {
  for (const GroupedShape& shape : plan::kSm90GroupedShapes) {
    for (const bool gated : {false, true}) {
      const GroupedProduct p{1000, 1040, 256, 1, gated, {}};
      const auto tiles = plan::grouped_tiles(p, shape);
      const int columns = shape.columns(gated);
      EXPECT_GE(tiles.columns * columns, p.out_n());
      EXPECT_LT((tiles.columns - 1) * columns, p.out_n());
    }
    for (int rows = 0; rows < 1000; ++rows) {
      EXPECT_GE(plan::computed_rows(shape, rows), rows);
      EXPECT_LE(plan::computed_rows(shape, rows), rows + 7);
    }
  }
}

TEST(ExpertLayer, LastWaveIsCountedExactly) {
  // Tiles of 64 rows and 128 columns, one for each multiprocessor; then one more.
  const auto sm = static_cast<std::int64_t>(hardware().multiprocessors);
  const auto of = [&](std::int64_t tiles) {
    const GroupedProduct p{64, 128 * tiles, 1024, 1, false, {}};
    return grouped_time(hardware(), p, plan::kSm90Few, std::vector<int>{64});
  };
  const GroupedTime one = of(1), whole = of(sm), more = of(sm + 1);
  EXPECT_EQ(whole.tiles, static_cast<double>(sm));
  EXPECT_DOUBLE_EQ(one.tiles_us, whole.tiles_us);
  const double end_us = hardware().tile_us * 128 * 64 / (128.0 * 256);
  // In turns: the first tile's end runs under the second one.
  EXPECT_DOUBLE_EQ(more.tiles_us - end_us, 2 * (whole.tiles_us - end_us));
  EXPECT_LT(more.even_us, 0.6 * more.tiles_us);
}

TEST(ExpertLayer, EvenRowsTakeWhatADenseProductTakesWithinThePadding) {
  // k: those of pairs and of turns.
  for (const std::int64_t k : {7168, 1024}) {
    const std::vector<int> rows(8, 2050);
    const GroupedProduct p{8 * 2050, 4096, k, 8, false, {}};
    const GroupedTime t = time_of(p, rows);
    const double dense = plan::gemm_candidates({p.rows, p.n, p.k, {}})[0].predicted_us;
    EXPECT_EQ(t.rows, p.rows);
    const double padding = t.computed_rows / t.rows;
    EXPECT_GE(padding, 1);
    EXPECT_LE(padding, 1 + 7.0 / 2050);
    EXPECT_GT(t.total_us(), 0.95 * dense);
    EXPECT_LT(t.total_us(), 1.2 * padding * dense);
  }
}

TEST(ExpertLayer, FewTokensReadTheWeightsOfExpertsThatAreHitAlone) {
  const GroupedProduct p{64, 4096, 4096, 8, false, {}};
  const double weight_us = 4096.0 * 4096 * 2 / (hardware().memory_gbps * 1e3);
  const GroupedTime two = time_of(p, {32, 0, 0, 32, 0, 0, 0, 0});
  const GroupedTime all = time_of(p, std::vector<int>(8, 8));
  EXPECT_NEAR(all.memory_us - two.memory_us, 6 * weight_us, 1e-6);
  EXPECT_EQ(all.bound(), GroupedBound::memory);
  const GroupedTime none = time_of(p, std::vector<int>(8, 0));
  EXPECT_EQ(none.total_us(), none.fixed_us);
  EXPECT_EQ(none.bound(), GroupedBound::fixed);
}

TEST(ExpertLayer, UnevenRowsOfFullTilesCostAtLeastAsMuchAsEvenOnes) {
  // The same tiles, but for how experts follow each other.
  const GroupedProduct p{16 * 384, 4096, 1024, 16, false, {}};
  std::vector<int> even(16, 384), hot(16, 192);
  hot[3] += 16 * 192;
  ASSERT_EQ(std::accumulate(hot.begin(), hot.end(), 0), 16 * 384);
  EXPECT_DOUBLE_EQ(time_of(p, even).tiles_us, time_of(p, hot).tiles_us);
  EXPECT_GE(time_of(p, hot).total_us(), time_of(p, even).total_us());
}

TEST(ExpertLayer, TotalIsTheSumOfPasses) {
  const std::vector<int> rows(16, 128);
  const LayerTime t =
      layer_time(machine(), layer(), 512, 2, tilelace::Collective::reduce_scatter, rows);
  double sum = 0;
  for (const double us : t.us) {
    EXPECT_GT(us, 0);
    sum += us;
  }
  EXPECT_DOUBLE_EQ(t.total_us(), sum);
  EXPECT_DOUBLE_EQ(t.first_us(),
                   sum - t.of(LayerPass::down) - t.of(LayerPass::sum) - t.of(LayerPass::reduce));
  EXPECT_DOUBLE_EQ(t.of(LayerPass::up), t.up.total_us());
  // 512 tokens and 2048 rows of 4 KiB; 2048 pairs.
  EXPECT_DOUBLE_EQ(t.of(LayerPass::permute), 3 + 2560 * 4096 * 1e-3 / 3000);
  EXPECT_DOUBLE_EQ(t.of(LayerPass::sum), 3 + 2560 * 4096 * 1e-3 / 4200);
  EXPECT_DOUBLE_EQ(t.of(LayerPass::map), 3 + 2048 / 4000.0);
}

TEST(ExpertLayer, ReplicatedTokensAreNotGathered) {
  MoeLayer l = layer();
  const std::vector<int> rows(16, 128);
  const auto own = layer_time(machine(), l, 512, 4, tilelace::Collective::reduce_scatter, rows);
  l.replicated = true;
  const auto all = layer_time(machine(), l, 512, 4, tilelace::Collective::all_reduce, rows);
  EXPECT_LT(all.of(LayerPass::gather), own.of(LayerPass::gather) - 5);
  EXPECT_GT(all.of(LayerPass::reduce), own.of(LayerPass::reduce));
  EXPECT_EQ(all.of(LayerPass::up), own.of(LayerPass::up));
}

TEST(ExpertLayer, MachinesWithoutKernelsAndTooFewRanksAreRefused) {
  MachineModel m = machine();
  EXPECT_NO_THROW(check_experts(m, layer(), 8));
  EXPECT_THROW(check_experts(m, layer(), 9), Error);
  MoeLayer l = layer();
  l.dtype = kAccumulator;
  EXPECT_THROW(check_experts(m, l, 2), Error);
  l = layer();
  l.experts = 1024;
  EXPECT_NO_THROW(check_experts(m, l, 2));
  l.experts = 1025;
  EXPECT_THROW(check_experts(m, l, 2), Error);
  m.compute.capability = 80;
  EXPECT_THROW(check_experts(m, layer(), 2), Error);
}

}  // namespace
}  // namespace tilelace::sim
