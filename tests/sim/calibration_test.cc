// SPDX-License-Identifier: Apache-2.0
// Predictions against measurements. The constants of the H200 were fitted on gpt3-175b and
// qwen3-32b at 4 ranks (tools/fit_machine.py); all other rows judge them.
#include <fmt/core.h>

#include "records.h"
#include "simulate/machine_file.h"

namespace tilelace::sim {
namespace {

constexpr std::int64_t kLeastM = 512;

struct Row {
  double predicted = 0, measured = 0;
};

void print_row(const nlohmann::json& r, const std::vector<Row>& figures) {
  fmt::print("{:10} {:7} ranks {} m {:5}", r["model"].get<std::string>(),
             r["op"].get<std::string>(), r["ranks"].get<int>(), r["m"].get<int>());
  for (const Row& f : figures) {
    fmt::print("  {:8.1f} {:8.1f} {:+5.1f} %", f.predicted, f.measured,
               100 * (f.predicted / f.measured - 1));
  }
  fmt::print("\n");
}

/// GEMM (once for the two reductions), collective and unfused of a record.
std::vector<Row> compare(const MachineModel& m, const nlohmann::json& r) {
  const Op op = op_of(r["op"]);
  const Call call = call_of_product(op, r["ranks"], r["m"], r["n"], r["k"]);
  std::vector<Row> rows;
  if (op != Op::gemm_ar) {
    rows.push_back({gemm_time(m.compute, product_of(call.problem)).total_us(), r["gemm_us"]});
  }
  rows.push_back({collective_us(m, call), r["collective_us"]});
  rows.push_back({unfused_us(m, call), r["unfused_us"]});
  return rows;
}

TEST(SimCalibration, H200BaselinesWithinTheBar) {
  Errors fitted, judged, small;
  fmt::print("predicted, measured (us), error: GEMM (not gemm_ar), collective, unfused\n");
  for (const int ranks : {2, 4, 8}) {
    const MachineModel m = cli::read_machine(fmt::format("h200x{}", ranks));
    for (const auto& r : records(fmt::format("nvidia-h200-tp{}/baselines.jsonl", ranks))) {
      const bool in_fit = ranks == 4 && r["model"] != "llama2-70b";
      const bool large = r["m"].get<std::int64_t>() >= kLeastM;
      const auto rows = compare(m, r);
      if (large) print_row(r, rows);
      for (const Row& f : rows) {
        (!large ? small : in_fit ? fitted : judged).add(f.predicted, f.measured);
      }
    }
  }
  for (const auto& [name, e] : {std::pair<const char*, const Errors*>{"fitted on", &fitted},
                                {"judged", &judged},
                                {"m < 512, all", &small}}) {
    fmt::print("{}: {} figures, median error {:.1f} %, 90th percentile {:.1f} %\n", name,
               e->percent.size(), e->quantile(0.5), e->quantile(0.9));
  }
  EXPECT_EQ(judged.percent.size(), 288U);
  EXPECT_LE(judged.quantile(0.5), 8);
  EXPECT_LE(judged.quantile(0.9), 15);
}

TEST(SimCalibration, TheMachineFilesStateTheirError) {
  Errors judged;
  for (const int ranks : {2, 4, 8}) {
    const MachineModel m = cli::read_machine(fmt::format("h200x{}", ranks));
    for (const auto& r : records(fmt::format("nvidia-h200-tp{}/baselines.jsonl", ranks))) {
      if ((ranks == 4 && r["model"] != "llama2-70b") || r["m"].get<int>() < kLeastM) continue;
      for (const Row& f : compare(m, r)) judged.add(f.predicted, f.measured);
    }
  }
  for (const int ranks : {2, 4, 8}) {
    const KnownError e = cli::read_machine(fmt::format("h200x{}", ranks)).error;
    EXPECT_NEAR(e.median_percent, judged.quantile(0.5), 0.06);
    EXPECT_NEAR(e.p90_percent, judged.quantile(0.9), 0.06);
  }
}

/// cuBLASMp splits by shard, as the medium-grained method does. No bar: the error is printed.
TEST(SimCalibration, MediumGrainedBesideCublasmp) {
  const MachineModel m = cli::read_machine("h200x4");
  Errors fitted, judged;
  for (const auto& r : records("nvidia-h200-tp4/cublasmp.jsonl")) {
    const Op op = op_of(r["op"]);
    if (op == Op::gemm_ar) continue;
    const Call call = call_of_product(op, 4, r["m"], r["n"], r["k"]);
    const Prediction p = predict(m, call, {{}, medium_plans(m, call)});
    // Both over their own GEMM: clocks differ between runs.
    const double predicted = p.medium_us / p.gemm_us;
    const double measured = r["medium_us"].get<double>() / r["gemm_us"].get<double>();
    print_row(r, {{predicted * 100, measured * 100}});
    (r["model"] == "llama2-70b" ? judged : fitted).add(predicted, measured);
  }
  fmt::print("medium over GEMM: fitted on {:.1f} %, judged (llama2-70b) {:.1f} % (medians)\n",
             fitted.quantile(0.5), judged.quantile(0.5));
  EXPECT_LE(judged.quantile(0.5), 15);
}

/// CPU ranks over an emulated wire: overlap of this very schedule, measured.
TEST(SimCalibration, CpuRanksOverAWire) {
  const MachineModel file = cli::read_machine("cpu-epyc-2-cores");
  Errors all;
  for (const char* rate : {"0.05", "0.1", "0.2", "0.4"}) {
    MachineModel m = file;
    Links& l = m.links;
    l.push_gbps = l.pull_gbps = l.store_gbps = l.store_worker_gbps = m.collectives.wire_gbps =
        std::stod(rate);
    for (const auto& r :
         records(fmt::format("amd-epyc-2-cores-tp4/llama3.1-8b.link-{}.jsonl", rate))) {
      const Call call = call_of_product(op_of(r["op"]), r["ranks"], r["m"], r["n"], r["k"]);
      const Prediction p = predict(m, call);
      const std::vector<Row> rows = {{p.gemm_us, r["gemm_us"]},
                                     {p.collective_us, r["collective_us"]},
                                     {p.unfused_us, r["unfused_us"]},
                                     {p.fused_us, r["fused_us"]}};
      print_row(r, rows);
      for (const Row& f : rows) all.add(f.predicted, f.measured);
    }
  }
  fmt::print("CPU ranks: {} figures, median error {:.1f} %, 90th percentile {:.1f} %\n",
             all.percent.size(), all.quantile(0.5), all.quantile(0.9));
  EXPECT_LE(all.quantile(0.5), 15);
}

}  // namespace
}  // namespace tilelace::sim
