// SPDX-License-Identifier: Apache-2.0
// Predictions against measurements. The constants of the H200 were fitted to products alone
// (nvidia-h200/gemm.jsonl) and to collectives alone (baselines.jsonl, older runs); no constant to a
// fused or medium-grained call (tools/fit_machine.py). Rows of ops judge them.
#include <fmt/core.h>

#include <map>
#include <tuple>

#include "night.h"
#include "plan/words/plan_words.h"
#include "records.h"
#include "simulate/machine_file.h"
#include "tilelace/error.h"

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

void print_errors(const std::string& what, const Errors& e) {
  fmt::print("{}: {} figures, median error {:.1f} %, 90th percentile {:.1f} %\n", what,
             e.percent.size(), e.quantile(0.5), e.quantile(0.9));
}

/// As machine files say it.
std::string said_of(const std::string& what, const Errors& e) {
  return fmt::format("{}: {:.1f} and {:.1f} %", what, e.quantile(0.5), e.quantile(0.9));
}

MachineModel h200(int ranks) { return cli::read_machine(fmt::format("h200x{}", ranks)); }

/// The plan that was measured, and the medium-grained ones; where a way is gone or medium-grained
/// itself, what Tilelace would take.
Candidates measured_plans(const MachineModel& m, const Call& call, const nlohmann::json& r) {
  Candidates all{{}, medium_plans(m, call)};
  try {
    const Plan plan = plan::plan_of_words(call.problem, r["plan"].get<std::string>());
    if (plan.kernel != nullptr && plan.path != Path::medium) all.fused.push_back(plan);
  } catch (const Error&) {
    // A word of before that means nothing any more.
  }
  if (all.fused.empty()) all.fused = fused_plans(m, call);
  return all;
}

/// Rows of ops on H200s, each with what is predicted for it.
class JudgedRows {
 public:
  struct Row {
    nlohmann::json record;
    Prediction prediction;

    [[nodiscard]] bool has(const char* key) const { return record.value(key, json()).is_number(); }
    [[nodiscard]] double of(const char* key) const { return record[key].get<double>(); }
    [[nodiscard]] std::string text(const char* key) const { return record[key].get<std::string>(); }
    [[nodiscard]] int ranks() const { return record["ranks"].get<int>(); }
    /// E of both sides; absent where unfused is no longer than the GEMM.
    [[nodiscard]] std::optional<Figure> efficiency() const {
      const double exposed = of("unfused_us") - of("gemm_us");
      if (exposed <= 0 || !prediction.efficiency()) return std::nullopt;
      return Figure{*prediction.efficiency(), 1 - (of("fused_us") - of("gemm_us")) / exposed};
    }
  };

  /// For the plan that simulate takes.
  static const std::vector<Row>& all() {
    static const std::vector<Row> rows = JudgedRows(false).rows_;
    return rows;
  }
  /// For the plan that was measured.
  static const std::vector<Row>& as_measured() {
    static const std::vector<Row> rows = JudgedRows(true).rows_;
    return rows;
  }

 private:
  using json = nlohmann::json;

  explicit JudgedRows(bool as_measured) : as_measured_(as_measured) {
    for (const char* op : {"ag_gemm", "gemm_rs"}) {
      for (const int ranks : {2, 4, 8})
        add(op, fmt::format("nvidia-h200-tp{}/{}.jsonl", ranks, op));
      add(op, fmt::format("nvidia-h200-tp4/window/{}.jsonl", op));
    }
  }

  void add(const std::string& op, const std::string& file) {
    for (const json& r : records(file)) {
      MachineModel m = h200(r["ranks"]);
      // Older rows have no such all-gather.
      const bool windows = r["peers"].contains("nccl_window");
      if (!windows) m.collectives.window_fixed_us = 0;
      const auto key = std::tuple(op, r["ranks"].get<int>(), r["m"].get<std::int64_t>(),
                                  r["n"].get<std::int64_t>(), r["k"].get<std::int64_t>(), windows,
                                  as_measured_ ? r["plan"].get<std::string>() : "");
      auto found = known_.find(key);
      if (found == known_.end()) {
        const Call call = call_of_product(op_of(op), r["ranks"], r["m"], r["n"], r["k"]);
        const Candidates own{fused_plans(m, call), medium_plans(m, call)};
        found =
            known_.emplace(key, predict(m, call, as_measured_ ? measured_plans(m, call, r) : own))
                .first;
      }
      rows_.push_back({r, found->second});
    }
  }

  std::vector<Row> rows_;
  bool as_measured_;
  std::map<
      std::tuple<std::string, int, std::int64_t, std::int64_t, std::int64_t, bool, std::string>,
      Prediction>
      known_;
};

using Signs = std::map<std::string, std::pair<int, int>>;

/// Of whichever of fused and medium-grained is faster, where they differ by more than 3 %: how many
/// are right, of how many.
Signs signs_of(const std::vector<JudgedRows::Row>& rows) {
  constexpr double kDiffer = 0.03;
  Signs right;
  for (const JudgedRows::Row& r : rows) {
    if (!r.has("medium_us") || r.text("path") == "medium") continue;
    const double measured = r.of("fused_us") / r.of("medium_us") - 1;
    if (std::fabs(measured) <= kDiffer) continue;
    const double predicted = r.prediction.fused_us / r.prediction.medium_us - 1;
    const bool same = (predicted < 0) == (measured < 0);
    for (const std::string& what : {r.text("op"), fmt::format("{} {} at {} ranks", r.text("op"),
                                                              r.text("path"), r.ranks())}) {
      right[what].first += same ? 1 : 0;
      right[what].second += 1;
    }
  }
  for (const auto& [what, n] : right)
    fmt::print("{}: {} of {} signs right\n", what, n.first, n.second);
  return right;
}

TEST(SimCalibration, TheFasterMethodIsPredicted) {
  constexpr double kBar = 0.9;
  fmt::print("with the plans that were measured\n");
  signs_of(JudgedRows::as_measured());
  fmt::print("with the plans that simulate takes\n");
  Signs right = signs_of(JudgedRows::all());
  for (const char* op : {"ag_gemm", "gemm_rs"}) {
    EXPECT_GE(right[op].second, 40) << op;
    EXPECT_GE(right[op].first, kBar * right[op].second) << op;
  }
}

/// By ranks: how far E is off.
std::map<int, std::vector<double>> errors_of_efficiency(const std::vector<JudgedRows::Row>& rows) {
  std::map<int, std::vector<double>> by_ranks;
  std::map<std::string, std::vector<double>> parts;
  for (const JudgedRows::Row& r : rows) {
    const auto e = r.efficiency();
    if (!e) continue;
    const double off = std::fabs(e->predicted - e->measured);
    by_ranks[r.ranks()].push_back(off);
    parts[fmt::format("{} {} at {} ranks", r.text("op"), r.text("path"), r.ranks())].push_back(off);
  }
  for (const auto& [what, off] : parts)
    fmt::print("{}: {} rows, median error of E {:.3f}\n", what, off.size(), median_of(off));
  for (const auto& [ranks, off] : by_ranks)
    fmt::print("{} ranks: {} rows, median error of E {:.3f}\n", ranks, off.size(), median_of(off));
  return by_ranks;
}

/// E is a difference over a difference: among two, where they are a few percent of the GEMM, GEMMs
/// that were measured twice differ by as much.
TEST(SimCalibration, OverlapEfficiencyIsPredicted) {
  fmt::print("with the plans that were measured\n");
  errors_of_efficiency(JudgedRows::as_measured());
  fmt::print("with the plans that simulate takes\n");
  std::vector<double> two, more;
  for (const auto& [ranks, off] : errors_of_efficiency(JudgedRows::all()))
    (ranks == 2 ? two : more).insert((ranks == 2 ? two : more).end(), off.begin(), off.end());
  fmt::print("4 and 8 ranks: {} rows, median error of E {:.3f}\n", more.size(), median_of(more));
  EXPECT_LE(median_of(two), 0.25);
  EXPECT_LE(median_of(more), 0.10);
}

/// All figures of m >= 512, by op and path; the machine files state them.
TEST(SimCalibration, TheMachineFilesStateTheirError) {
  Errors judged, small;
  std::map<std::string, Errors> parts;
  fmt::print("predicted, measured (us), error: GEMM, collective, unfused, medium, fused\n");
  for (const JudgedRows::Row& r : JudgedRows::all()) {
    const Prediction& p = r.prediction;
    const bool large = r.of("m") >= kLeastM;
    std::vector<Figure> figures;
    for (const auto& [key, predicted] :
         {std::pair("gemm_us", p.gemm_us), std::pair("collective_us", p.collective_us),
          std::pair("unfused_us", p.unfused_us), std::pair("medium_us", p.medium_us),
          std::pair("fused_us", p.fused_us)}) {
      if (!r.has(key)) continue;
      figures.push_back({predicted, r.of(key)});
      (large ? judged : small).add(predicted, r.of(key));
      const bool fused = std::string(key) == "fused_us";
      parts[fmt::format("{} {}{}", r.text("op"), fused ? r.text("path") + " " : "", key)].add(
          predicted, r.of(key));
    }
    if (large) print_row(r.record, figures);
  }
  for (const auto& [what, errors] : parts) print_errors(what, errors);
  print_errors("m < 512, all", small);
  print_errors("m >= 512, all", judged);
  for (const int ranks : {2, 4, 8}) {
    const KnownError e = h200(ranks).error;
    EXPECT_NEAR(e.median_percent, judged.quantile(0.5), 0.06);
    EXPECT_NEAR(e.p90_percent, judged.quantile(0.9), 0.06);
    EXPECT_NE(e.text.find(said_of("m < 512", small)), std::string::npos) << said_of("", small);
  }
  EXPECT_LE(judged.quantile(0.5), 8);
  EXPECT_LE(judged.quantile(0.9), 15);
}

/// gemm_ar is played by the schedules alone, not as kernels run it: its error is printed, and has a
/// bar of its own. In the gate every third row.
TEST(SimCalibration, GemmArIsNotPlayedAsKernelsRunIt) {
  std::map<int, std::vector<double>> off;
  Errors errors;
  for (const auto& [ranks, file] :
       {std::pair(2, "nvidia-h200-tp2"), std::pair(4, "nvidia-h200-tp4"),
        std::pair(4, "nvidia-h200-tp4/window")}) {
    const auto rows = records(fmt::format("{}/gemm_ar.jsonl", file));
    for (std::size_t i = 0; i<rows.size(); i += night_times()> 1 ? 1 : 8) {
      const auto& r = rows[i];
      const Call call = call_of_product(Op::gemm_ar, ranks, r["m"], r["n"], r["k"]);
      const JudgedRows::Row row{r, predict(h200(ranks), call)};
      if (const auto e = row.efficiency())
        off[ranks].push_back(std::fabs(e->predicted - e->measured));
      if (row.of("m") >= kLeastM) errors.add(row.prediction.fused_us, row.of("fused_us"));
    }
  }
  for (const auto& [ranks, all] : off)
    fmt::print("gemm_ar at {} ranks: {} rows, median error of E {:.3f}\n", ranks, all.size(),
               median_of(all));
  print_errors("gemm_ar, fused, m >= 512", errors);
  EXPECT_LE(errors.quantile(0.5), 15);
  if (night_times() > 1) {  // all rows
    EXPECT_NE(h200(4).error.text.find(said_of("fused gemm_ar", errors)), std::string::npos)
        << said_of("", errors);
  }
}

/// cuBLASLt's best algorithm under sustained load, which the chip was fitted to.
TEST(SimCalibration, H200GemmsWithinTheBar) {
  Errors errors;
  for (const auto& r : records("nvidia-h200/gemm.jsonl")) {
    const Product p{r["m"], r["rank_n"], r["rank_k"], 2};
    const double us = gemm_time(h200(r["ranks"]).compute, p).total_us();
    if (r["m"].get<std::int64_t>() >= kLeastM) errors.add(us, r["cublas_us"]);
  }
  print_errors("GEMM, m >= 512", errors);
  EXPECT_EQ(errors.percent.size(), 108U);
  EXPECT_LE(errors.quantile(0.5), 8);
  EXPECT_LE(errors.quantile(0.9), 15);
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
    l.push_gbps = l.mesh_gbps = l.pull_gbps = l.store_gbps = l.store_worker_gbps =
        m.collectives.wire_gbps = std::stod(rate);
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
  print_errors("CPU ranks", all);
  EXPECT_LE(all.quantile(0.5), 15);
}

/// Two GPUs behind one root port share nothing with the others: bytes over the link's rate.
TEST(SimCalibration, TwoGpusOfATreeUseTheirOwnLinks) {
  constexpr double kBar = 0.25;
  for (const char* name : {"l40s-pcie-x8", "l20-pcie-x8", "a100-pcie-x8"}) {
    const MachineModel m = cli::read_machine(name);
    for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
      const Call call = call_of_product(op, 2, 4096, 28672, 8192);
      const double wide = op == Op::ag_gemm ? 8192 : 28672;
      const double us = 4096 / 2 * wide * 2 * 1e-3 / m.links.push_gbps;
      const Prediction p = predict(m, call);
      fmt::print("{} x2 {}: link {:.0f} us, collective {:.0f}, busiest wire of fused {:.0f}\n",
                 name, name_of(op), us, p.collective_us, p.fused.wire_us);
      EXPECT_NEAR(p.collective_us / us, 1, kBar) << name;
      EXPECT_NEAR(p.fused.wire_us / us, 1, kBar + 0.05) << name;
    }
  }
}

TEST(SimCalibration, TheNameOfAMachineDecidesNothing) {
  const MachineModel m = h200(4);
  MachineModel other = m;
  other.name = other.device = "another";
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    const Call call = call_of_product(op, 4, 2048, 8192, 8192);
    const Prediction a = predict(m, call), b = predict(other, call);
    EXPECT_EQ(a.fused, b.fused);
    EXPECT_EQ(a.plan, b.plan);
    EXPECT_EQ(a.unfused_us, b.unfused_us);
    EXPECT_EQ(a.medium_us, b.medium_us);
  }
}

}  // namespace
}  // namespace tilelace::sim
