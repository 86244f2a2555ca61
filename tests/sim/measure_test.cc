// SPDX-License-Identifier: Apache-2.0
// What doctor --measure makes of its times.
#include <gtest/gtest.h>

#include <array>

#include "records.h"
#include "sample_machine.h"
#include "simulate/differences.h"
#include "simulate/fit_compute.h"

namespace tilelace::cli {
namespace {

sim::Compute known() {
  sim::Compute c = sim::sample_machine().compute;
  c.peak_tflops = 989;
  c.efficiency = 0.8;
  c.power_tflops = 640;
  c.memory_gbps = 3900;
  c.fixed_us = 3.3;
  return c;
}

/// Launch-bound, memory-bound, in waves, at the power limit.
std::vector<TimedGemm> timed_on(const sim::Compute& c) {
  std::vector<TimedGemm> all;
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{128, 128, 128},
                                                                        {16, 8192, 8192},
                                                                        {16, 16384, 16384},
                                                                        {512, 8192, 8192},
                                                                        {2048, 8192, 8192},
                                                                        {8192, 16384, 8192}}) {
    const sim::Product p{m, n, k, 2};
    all.push_back({p, sim::gemm_time(c, p).total_us()});
  }
  return all;
}

TEST(Measure, TheFitFindsTheChipThatMadeTheTimes) {
  const auto timed = timed_on(known());
  sim::Compute start = known();
  start.efficiency = 0.5, start.power_tflops = 989, start.memory_gbps = 1000, start.fixed_us = 10;

  const sim::Compute found = fit_compute(start, timed);

  EXPECT_GT(worst_error(start, timed), 0.5);
  EXPECT_LE(worst_error(found, timed), 0.02);
  // Tiles are of nearly every width: the rate of a main loop stands in for a little of the limit.
  EXPECT_NEAR(found.power_tflops / known().power_tflops, 1, 0.07);
  EXPECT_NEAR(found.memory_gbps / known().memory_gbps, 1, 0.05);
}

/// Fitted to one model's products on H200, it knows another's; the bar is the simulator's.
TEST(Measure, AFitToOneModelPredictsAnother) {
  std::vector<TimedGemm> seen, unseen;
  for (const auto& r : sim::records("nvidia-h200/gemm.jsonl")) {
    if (r["ranks"] != 4) continue;
    const TimedGemm timed{{r["m"], r["rank_n"], r["rank_k"], 2}, r["cublas_us"]};
    if (r["model"] == "llama2-70b") seen.push_back(timed);
    if (r["model"] == "qwen3-32b" && r["m"] >= 512) unseen.push_back(timed);
  }
  const sim::Compute found = fit_compute(read_machine("h100x8").compute, seen);
  sim::Errors errors;
  for (const TimedGemm& t : unseen) errors.add(sim::gemm_time(found, t.product).total_us(), t.us);
  EXPECT_EQ(errors.percent.size(), 12U);
  EXPECT_LE(errors.quantile(0.5), 8);
  EXPECT_LE(errors.quantile(0.9), 15);
}

TEST(Measure, DifferencesNameWhatWasMeasured) {
  Sources sources;
  sim::MachineModel mine = read_machine("h200x4", &sources);
  const sim::MachineModel other = mine;
  mine.name = "mine";
  mine.links.push_gbps *= 0.9;
  mine.links.copy_us = 7;
  sources["links.push_gbps"] = "measured here";

  const std::string text = differences_text(mine, sources, other);

  EXPECT_NE(text.find("links.push_gbps"), std::string::npos) << text;
  EXPECT_NE(text.find("-10.0 %"), std::string::npos) << text;
  EXPECT_GT(text.find("links.copy_us"), text.find("not measured, and different")) << text;
  EXPECT_EQ(text.find("links.pull_gbps"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilelace::cli
