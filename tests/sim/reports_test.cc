// SPDX-License-Identifier: Apache-2.0
// What the command writes of a prediction.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "night.h"
#include "records.h"
#include "simulate/figure.h"
#include "simulate/machine_file.h"
#include "simulate/trace.h"

namespace tilelace::cli {
namespace {

struct Simulated {
  sim::MachineModel machine;
  SimulatedRow row;
};

Simulated simulated(const char* machine, int ranks, int local) {
  Simulated s{sim::MachineModel(read_machine(machine)), {}};
  s.row.model = "a <model> & more";
  s.row.layer = "up";
  s.row.n = 8192, s.row.k = 4096;
  s.row.call = sim::call_of_product(Op::ag_gemm, ranks, 1024, 8192, 4096);
  s.row.call.local = local;
  s.row.prediction = sim::predict(
      s.machine, s.row.call,
      {fused_plans(s.machine, s.row.call), medium_plans(s.machine, s.row.call)}, {}, true);
  return s;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(SimReports, TheFigureShowsWorkersWiresAndMethods) {
  const Simulated s = simulated("h200x4", 4, 4);
  const std::string svg = figure_svg(s.machine, s.row, 1);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_EQ(svg.find("a <model>"), std::string::npos);
  for (const char* part :
       {"GEMM alone", "fused", "medium-grained", "unfused", "worker 0", "copy", "rank 3 in",
        "copies, bytes", "known error", " us</text>", "the last rank (", "beyond the GEMM",
        "waits for flags ", "busy share"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_GT(count(svg, "<rect"), 132U);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

/// The shares under the title are of what is drawn: a rank that waits says so.
TEST(SimReports, TheFigureSaysWhereTheTimeGoes) {
  Simulated s = simulated("h200x4", 4, 4);
  auto& spans = s.row.prediction.fused.spans;
  const double end = s.row.prediction.fused.end_us;
  std::erase_if(spans, [](const sim::Span& span) { return span.kind != sim::SpanKind::wire; });
  const int workers = s.row.prediction.plan.workers;
  for (int lane = 0; lane < workers; ++lane) {
    spans.push_back({sim::SpanKind::compute, 1, lane, 1, 0, 0.5 * end});
    spans.push_back({sim::SpanKind::wait, 1, lane, 2, 0.5 * end, 0.8 * end});
  }
  const std::string svg = figure_svg(s.machine, s.row, 1);
  EXPECT_NE(svg.find("products 50 %, sums 0 %, waits for flags 30 %, nothing to do 20 %"),
            std::string::npos);
}

TEST(SimReports, TheTraceHoldsEverySpanOnce) {
  const Simulated s = simulated("h800-nvlink-x8", 16, 8);
  const auto trace = nlohmann::json::parse(trace_json(s.machine, s.row));
  std::size_t spans = 0;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    ++spans;
    EXPECT_GE(e["dur"].get<double>(), 0);
  }
  EXPECT_EQ(spans, s.row.prediction.fused.spans.size());
}

TEST(SimReports, TheRecordHasTheBenchKeys) {
  const Simulated s = simulated("h200x8", 8, 8);
  const auto r = nlohmann::json::parse(simulate_record(s.machine, s.row));
  for (const char* key : {"schema",        "op",         "model",     "layer",
                          "ranks",         "m",          "n",         "k",
                          "dtype",         "backend",    "mode",      "gemm_us",
                          "collective_us", "unfused_us", "medium_us", "fused_us",
                          "path",          "roof_us",    "ect_us",    "efficiency",
                          "speedup",       "peers",      "plan",      "transport",
                          "error",         "exact",      "verified",  "iterations",
                          "spread",        "device",     "driver",    "commit",
                          "time"}) {
    EXPECT_TRUE(r.contains(key)) << key;
  }
  EXPECT_EQ(r["schema"], "tilelace.bench/1");
  EXPECT_EQ(r["backend"], "simulated");
  EXPECT_GT(r["known_error"]["median_percent"], 0);
  EXPECT_DOUBLE_EQ(r["ect_us"].get<double>(),
                   r["fused_us"].get<double>() - r["gemm_us"].get<double>());
}

/// Whatever machine, method, call and disturbance: nothing played is faster than its roof. In the
/// gate one of 59.
TEST(SimReports, NothingIsFasterThanItsRoof) {
  std::vector<sim::MachineModel> machines;
  for (const std::string& name : machine_names()) {
    machines.push_back(read_machine(name));
    for (const std::string& method : method_names()) {
      machines.push_back(read_machine(name));
      read_method(method, machines.back());
    }
  }
  const int step = night_times() > 1 ? 1 : 59;  // meets every shape, no divisor of 12
  int played = 0, turn = 0;
  double most = 0;
  for (const sim::MachineModel& machine : machines) {
    const int ranks = std::min(4, static_cast<int>(machine.ranks_per_node));
    for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
      for (const auto& [m, n, k] : {std::array{1, 4096, 4096}, std::array{192, 256, 16384},
                                    std::array{4096, 16384, 2048}, std::array{3001, 1024, 1024}}) {
        if (turn++ % step != 0) continue;
        const sim::Call call = sim::call_of_product(op, ranks, m, n, k);
        const sim::Candidates plans{fused_plans(machine, call), {}};
        for (const sim::Disturbance& d :
             {sim::Disturbance(), sim::Disturbance{3, 0.2, 0, 1.5, 7}}) {
          const sim::Prediction p = sim::predict(machine, call, plans, d);
          EXPECT_GT(p.roof_us(), 0) << machine.name << " " << name_of(op) << " " << m;
          EXPECT_LE(p.roof_us(), p.fused_us * (1 + 1e-9))
              << machine.name << " " << machine.method.name << " " << name_of(op) << " " << m;
          most = std::max(most, p.roof_us() / p.fused_us);
          ++played;
        }
      }
    }
  }
  EXPECT_GE(played, 100 / step);
  EXPECT_GT(most, 0.8);  // a bound that is far from everything says nothing
}

/// The longer of the library's GEMM and the wire is no roof: own kernels may beat that GEMM.
TEST(SimReports, TheRoofIsNotTheLibrarysGemm) {
  const sim::MachineModel m = read_machine("h200x4");
  const auto product =
      sim::product_of(sim::call_of_product(Op::gemm_rs, 4, 4096, 8192, 8192).problem);
  EXPECT_LT(sim::least_us(m.compute, product), sim::gemm_time(m.compute, product).total_us());
  EXPECT_GT(sim::least_us(m.compute, product), 0.5 * sim::gemm_time(m.compute, product).busy_us());
}

}  // namespace
}  // namespace tilelace::cli
