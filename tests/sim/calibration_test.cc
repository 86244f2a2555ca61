// SPDX-License-Identifier: Apache-2.0
// Predictions against measurements. The constants of the H200 were fitted on gpt3-175b and
// qwen3-32b at 4 ranks (tools/fit_machine.py), what fused and medium-grained calls add on qwen3-32b
// at 4 ranks (tools/fit_method.py); all other rows judge them.
#include <fmt/core.h>

#include "records.h"
#include "simulate/machine_file.h"

namespace tilelace::sim {
namespace {

constexpr std::int64_t kLeastM = 512;

struct Figure {
  double predicted = 0, measured = 0;
};

void print_row(const nlohmann::json& r, const std::vector<Figure>& figures) {
  fmt::print("{:10} {:7} ranks {} m {:5}", r["model"].get<std::string>(),
             r["op"].get<std::string>(), r["ranks"].get<int>(), r["m"].get<int>());
  for (const Figure& f : figures) {
    fmt::print("  {:8.1f} {:8.1f} {:+5.1f} %", f.predicted, f.measured,
               100 * (f.predicted / f.measured - 1));
  }
  fmt::print("\n");
}

void print_errors(const char* what, const Errors& e) {
  fmt::print("{}: {} figures, median error {:.1f} %, 90th percentile {:.1f} %\n", what,
             e.percent.size(), e.quantile(0.5), e.quantile(0.9));
}

/// Figures of m >= 512 that the constants were fitted to, those that judge them, and the others.
struct Sets {
  Errors fitted, judged, small;

  void add(const nlohmann::json& r, const std::vector<Figure>& figures, bool in_fit) {
    const bool large = r["m"].get<std::int64_t>() >= kLeastM;
    if (large) print_row(r, figures);
    for (const Figure& f : figures) {
      (!large ? small : in_fit ? fitted : judged).add(f.predicted, f.measured);
    }
  }
  void add(const Sets& s) {
    for (const auto& [to, from] : {std::pair(&fitted, &s.fitted), std::pair(&judged, &s.judged),
                                   std::pair(&small, &s.small)}) {
      to->percent.insert(to->percent.end(), from->percent.begin(), from->percent.end());
    }
  }
  void print() const {
    print_errors("fitted on", fitted);
    print_errors("judged", judged);
    print_errors("m < 512, all", small);
  }
};

MachineModel h200(int ranks) { return cli::read_machine(fmt::format("h200x{}", ranks)); }

/// GEMM (once for the two reductions), collective and unfused of the baselines.
Sets compare_baselines() {
  Sets sets;
  fmt::print("predicted, measured (us), error: GEMM (not gemm_ar), collective, unfused\n");
  for (const int ranks : {2, 4, 8}) {
    const MachineModel m = h200(ranks);
    for (const auto& r : records(fmt::format("nvidia-h200-tp{}/baselines.jsonl", ranks))) {
      const Op op = op_of(r["op"]);
      const Call call = call_of_product(op, ranks, r["m"], r["n"], r["k"]);
      std::vector<Figure> figures;
      if (op != Op::gemm_ar) {
        figures.push_back(
            {gemm_time(m.compute, product_of(call.problem)).total_us(), r["gemm_us"]});
      }
      figures.push_back({collective_us(m, call), r["collective_us"]});
      figures.push_back({unfused_us(m, call), r["unfused_us"]});
      sets.add(r, figures, ranks == 4 && r["model"] != "llama2-70b");
    }
  }
  return sets;
}

/// cuBLASLt's best algorithm under sustained load.
Sets compare_gemms() {
  Sets sets;
  fmt::print("predicted, measured (us), error: GEMM\n");
  for (const auto& r : records("nvidia-h200/gemm.jsonl")) {
    const Product p{r["m"], r["rank_n"], r["rank_k"], 2};
    sets.add(r, {{gemm_time(h200(r["ranks"]).compute, p).total_us(), r["cublas_us"]}},
             r["ranks"] == 4 && r["model"] != "llama2-70b");
  }
  return sets;
}

/// Our own ops; `fused` alone, or all that is measured beside it.
Sets compare_ops(bool fused_only) {
  Sets sets;
  const MachineModel m = h200(4);
  fmt::print("predicted, measured (us), error: {}fused\n",
             fused_only ? "" : "GEMM, collective, unfused, medium, ");
  for (const char* op : {"ag_gemm", "gemm_rs"}) {
    for (const auto& r : records(fmt::format("nvidia-h200-tp4/{}.jsonl", op))) {
      const Call call = call_of_product(op_of(op), 4, r["m"], r["n"], r["k"]);
      const Prediction p = predict(m, call);
      std::vector<Figure> figures;
      if (!fused_only) {
        figures = {{p.gemm_us, r["gemm_us"]},
                   {p.collective_us, r["collective_us"]},
                   {p.unfused_us, r["unfused_us"]},
                   {p.medium_us, r["medium_us"]}};
      }
      figures.push_back({p.fused_us, r["fused_us"]});
      sets.add(r, figures, r["model"] != "llama2-70b");
    }
  }
  return sets;
}

void expect_within_the_bar(const Errors& judged) {
  EXPECT_LE(judged.quantile(0.5), 8);
  EXPECT_LE(judged.quantile(0.9), 15);
}

TEST(SimCalibration, H200BaselinesWithinTheBar) {
  const Sets sets = compare_baselines();
  sets.print();
  EXPECT_EQ(sets.judged.percent.size(), 288U);
  expect_within_the_bar(sets.judged);
}

TEST(SimCalibration, H200GemmsWithinTheBar) {
  const Sets sets = compare_gemms();
  sets.print();
  EXPECT_EQ(sets.judged.percent.size(), 84U);
  expect_within_the_bar(sets.judged);
}

TEST(SimCalibration, H200FusedCallsWithinTheBar) {
  const Sets sets = compare_ops(true);
  sets.print();
  EXPECT_EQ(sets.judged.percent.size(), 14U);
  expect_within_the_bar(sets.judged);
}

TEST(SimCalibration, TheMachineFilesStateTheirError) {
  Sets all = compare_ops(false);
  all.add(compare_gemms());
  all.add(compare_baselines());
  all.print();
  expect_within_the_bar(all.judged);
  for (const int ranks : {2, 4, 8}) {
    const KnownError e = h200(ranks).error;
    EXPECT_NEAR(e.median_percent, all.judged.quantile(0.5), 0.06);
    EXPECT_NEAR(e.p90_percent, all.judged.quantile(0.9), 0.06);
  }
}

/// cuBLASMp splits by shard, as the medium-grained method does. No bar: the error is printed.
TEST(SimCalibration, MediumGrainedBesideCublasmp) {
  MachineModel m = h200(4);
  cli::read_method("cublasmp", m);
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
      const std::vector<Figure> rows = {{p.gemm_us, r["gemm_us"]},
                                        {p.collective_us, r["collective_us"]},
                                        {p.unfused_us, r["unfused_us"]},
                                        {p.fused_us, r["fused_us"]}};
      print_row(r, rows);
      for (const Figure& f : rows) all.add(f.predicted, f.measured);
    }
  }
  fmt::print("CPU ranks: {} figures, median error {:.1f} %, 90th percentile {:.1f} %\n",
             all.percent.size(), all.quantile(0.5), all.quantile(0.9));
  EXPECT_LE(all.quantile(0.5), 15);
}

}  // namespace
}  // namespace tilelace::sim
