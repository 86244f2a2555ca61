// SPDX-License-Identifier: Apache-2.0
// Layers of experts beside measurements: whole layers on two H200, products on an H100. Nothing of
// the model was fitted to them, but for two rates of passes that are no product.
#include "model/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "moe/simulated.h"
#include "places.h"
#include "plan/sm90_grouped.h"
#include "row.h"
#include "simulate/machine_file.h"

namespace tilelace::cli {
namespace {

using nlohmann::json;

/// One rank of two of a model's layer.
MoeWork work_of(const std::string& name, std::int64_t experts = 0) {
  const auto c = model::read_experts(model::find_mixture(name));
  MoeWork work;
  work.ranks = 2;
  work.layer.dtype = c.dtype;
  work.layer.hidden = c.hidden, work.layer.inner = c.inner / work.ranks;
  work.layer.experts = experts > 0 ? experts : c.experts, work.layer.top_k = c.top_k;
  work.layer.activation = c.activation;
  return work;
}

/// us of ag_moe and moe_rs in graphs on two H200, m 8192, uniform.
struct MeasuredLayer {
  const char* model;
  std::int64_t experts;
  double us;
};
constexpr MeasuredLayer kLayers[] = {{"mixtral-8x7b", 8, 4205},
                                     {"qwen3-30b-a3b", 128, 831},
                                     {"qwen3-235b-a22b", 128, 2382},
                                     {"deepseek-v3", 64, 4939}};

TEST(SimulatedExperts, WholeLayersAreWithinTheKnownErrorOfTheMachine) {
  const auto machine = read_machine("h200x2");
  double worst = 0;
  for (const MeasuredLayer& l : kLayers) {
    const auto row =
        simulate_layer(machine, work_of(l.model, l.experts), "moe_rs", RoutingKind::uniform, 8192);
    const double off = std::fabs(row.time.total_us() / l.us - 1);
    std::printf("%-16s %6.0f us predicted, %6.0f measured\n", l.model, row.time.total_us(), l.us);
    worst = std::max(worst, off);
  }
  EXPECT_LE(100 * worst, machine.experts.error_percent);
  EXPECT_GT(100 * worst, machine.experts.error_percent - 2);  // says no more than it must
}

/// Relative errors of products, of records of one kind.
std::vector<double> errors_of_products(const std::string& file) {
  const plan::Hardware h = sim::hardware_of(read_machine("h100x8"));
  std::vector<double> off;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const json r = json::parse(line);
    if (!r.contains("side") || !r.contains("routing") || r["routing"] != "uniform") continue;
    const std::string name = r["model"];
    const auto slash = name.find('/');
    MoeLayer l = work_of(name.substr(0, slash),
                         slash == std::string::npos ? 0 : std::stoi(name.substr(slash + 1)))
                     .layer;
    const std::int64_t m = r["m"];
    const bool up = r["side"] == "up";
    const plan::GroupedProduct p{
        m * l.top_k, up ? 2 * l.inner : l.hidden, up ? l.hidden : l.inner, l.experts, false,
        l.dtype};
    const plan::GroupedShape& shape = plan::sm90_grouped_shape(p);
    if (r["form"] != shape.name) continue;
    const auto rows = expert_rows(make_routing(RoutingKind::uniform, l, m), l, m);
    off.push_back(
        std::fabs(sim::grouped_time(h, p, shape, rows).total_us() / r["us"].get<double>() - 1));
  }
  return off;
}

TEST(SimulatedExperts, ProductsOfAllSizesAreNearThoseOfAnH100) {
  const auto off = errors_of_products(in_source_tree("benchmarks/nvidia-h100/moe.jsonl"));
  ASSERT_GE(off.size(), 30U);
  std::printf("%zu products: median %.1f %%, 90th percentile %.1f %%\n", off.size(),
              100 * quantile(off, 0.5), 100 * quantile(off, 0.9));
  EXPECT_LE(quantile(off, 0.5), 0.045);
  EXPECT_LE(quantile(off, 0.9), 0.10);
}

}  // namespace
}  // namespace tilelace::cli
