// SPDX-License-Identifier: Apache-2.0
// How far choices are behind the fastest plan that was timed: the prediction's, the shipped
// table's, and that table's without the problem's own row. Over records whose candidates are at
// least twelve and have the five best predictions among them (tilelace tune --json).
#include <fmt/core.h>
#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <string>
#include <vector>

#include "places.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/sm90_grouped.h"
#include "plan/tuning/tuning_table.h"
#include "plan/words/plan_words.h"
#include "tilelace/op_table.h"
#include "tilelace/plan.h"

namespace tilelace::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kFewestCandidates = 12;

/// A plan's words. Where cuBLASLt multiplies, without those of a tile, which then does nothing.
/// Where a product's warps send rows, without the rows per flag, which follow from the other words.
std::string words_of(const std::string& plan) {
  static const std::regex of_flags(R"(^(ag_gemm fused mesh store .*)chunk [0-9]+ )");
  static const std::regex of_tiles(
      R"(tile [0-9x]+ |workers [0-9]+ |; \w+ split [0-9]+ group [0-9]+| along n| early| grid [0-9]+)");
  if (plan.find(" cublas ") == std::string::npos) return std::regex_replace(plan, of_flags, "$1");
  return std::regex_replace(plan, of_tiles, "");
}
std::string words_of(const Plan& plan) { return words_of(fmt::format("{}", fmt::streamed(plan))); }

struct TimedProblem {
  std::string name, time;
  Problem problem;
  std::map<std::string, double> us;  ///< by the plan's words
  bool cublas = false;               ///< plans with cuBLASLt's product were timed, too

  [[nodiscard]] double fastest() const {
    return std::ranges::min_element(us, {}, &decltype(us)::value_type::second)->second;
  }
  [[nodiscard]] bool timed(const Plan& plan) const { return us.contains(words_of(plan)); }
  /// Of a plan that was not timed, what the slowest took.
  [[nodiscard]] double took(const Plan& plan) const {
    const auto timed = us.find(words_of(plan));
    if (timed != us.end()) return timed->second;
    return std::ranges::max_element(us, {}, &decltype(us)::value_type::second)->second;
  }
  [[nodiscard]] double regret(const Plan& plan) const { return took(plan) / fastest() - 1; }
};

TimedProblem problem_of(const json& record) {
  TimedProblem row;
  row.time = record.at("time");
  Problem& p = row.problem;
  p.op = *op_of(record.at("op").get<std::string>());
  p.dtype = *dtype_named(record.at("dtype").get<std::string>());
  p.ranks = record.at("ranks");
  p.m = record.at("m");
  p.n = record.at("rank_n").get<std::vector<std::int64_t>>();
  p.k = record.at("rank_k");
  if (record.at("swiglu").get<bool>()) p.activation = Activation::swiglu;
  row.name = fmt::format("{} m {} n {} k {}", name_of(p.op), p.m, p.total_n(), p.k);
  // Plans that lost early have short samples alone, at clocks that no plan keeps; they lost to the
  // fastest in samples of the same length.
  const double fastest = record.at("fused_us");
  for (const json& c : record.at("candidates")) {
    const std::string plan = c.at("plan");
    const double us = std::max(c.at("us").get<double>(), fastest);
    // Read, as equal plans once had other words.
    const auto [timed, first] = row.us.emplace(words_of(plan_of_words(p, plan)), us);
    if (!first) timed->second = std::min(timed->second, us);
    row.cublas = row.cublas || plan.find(" cublas ") != std::string::npos;
  }
  return row;
}

/// The problems of a file of records.
struct TimedProblems {
  std::vector<TimedProblem> rows;
  std::map<std::string, std::string> since;  ///< by kernel: the first record that has it

  /// A tile's kernels of gate and up may be newer than its others.
  static std::string kernel_of(const Problem& p, const std::string& tile) {
    return p.activation == Activation::swiglu ? tile + " of gate and up" : tile;
  }
  /// Whether nobody could time this plan, since its kernel came later. Prints the row then.
  [[nodiscard]] bool is_newer(const TimedProblem& row, const Plan& plan) const {
    if (row.timed(plan)) return false;
    const std::string tile(gemm_of(plan.kernel->way).tile.name);
    const auto first = since.find(kernel_of(row.problem, tile));
    if (first != since.end() && first->second <= row.time) return false;
    fmt::print("left out, {} is newer: {}\n", tile, row.name);
    return true;
  }
};

TimedProblems timed_problems(const std::string& file) {
  TimedProblems all;
  std::ifstream in(in_source_tree("benchmarks/" + file));
  static const std::regex tile("; ([a-z0-9_]+) split ");
  for (std::string line; std::getline(in, line);) {
    TimedProblem row = problem_of(json::parse(line));
    for (const auto& [words, us] : row.us) {
      std::smatch found;
      if (!std::regex_search(words, found, tile)) continue;
      std::string& first =
          all.since.emplace(TimedProblems::kernel_of(row.problem, found[1]), row.time)
              .first->second;
      first = std::min(first, row.time);
    }
    if (row.us.size() >= kFewestCandidates) all.rows.push_back(std::move(row));
  }
  return all;
}

std::shared_ptr<TuningTable> shipped(const std::string& file) {
  return std::make_shared<TuningTable>(*read_tuning(in_source_tree("tuning/" + file)));
}

/// Prints mean and worst, and the rows that are far behind.
struct Regret {
  std::string what;
  std::vector<std::pair<double, std::string>> rows = {};
  int untimed = 0;  ///< choices
  int newer = 0;    ///< choices left out
  double worst_timed = 0;

  void add(const TimedProblem& row, const Plan& plan) {
    if (!row.timed(plan))
      ++untimed;
    else
      worst_timed = std::max(worst_timed, row.regret(plan));
    rows.emplace_back(row.regret(plan),
                      fmt::format("{}: {:.1f} us, {:.1f} by {}", row.name, row.took(plan),
                                  row.fastest(), fmt::streamed(plan)));
  }
  /// The same, but leaves out a choice whose kernel came after the row.
  void add_known(const TimedProblems& all, const TimedProblem& row, const Plan& plan) {
    if (all.is_newer(row, plan))
      ++newer;
    else
      add(row, plan);
  }
  [[nodiscard]] double mean() const {
    return std::accumulate(rows.begin(), rows.end(), 0.0,
                           [](double sum, const auto& row) { return sum + row.first; }) /
           static_cast<double>(rows.size());
  }
  [[nodiscard]] double worst() const { return std::ranges::max(rows).first; }
  void print() {
    fmt::print(
        "{}: {} problems, {} choices not timed, {:.2f} % behind in the mean, {:.1f} % at most\n",
        what, rows.size(), untimed, 100 * mean(), 100 * worst());
    std::ranges::sort(rows, std::greater{});
    for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 5); ++i)
      fmt::print("  {:5.1f} %  {}\n", 100 * rows[i].first, rows[i].second);
  }
};

struct Regrets {
  Regret predicted{"prediction"}, tuned{"table"}, without{"table without the row"};
};

/// Of so many H200s, whose table has a row of each problem; with the table choices are near the
/// fastest.
void measure_regrets(int gpus, Regrets& out) {
  const auto all = timed_problems(fmt::format("nvidia-h200-tp{}/tune.jsonl", gpus));
  ASSERT_GE(all.rows.size(), 100U);
  const auto table = shipped(fmt::format("h200x{}.json", gpus));
  Machine machine = cuda_machine();
  for (const TimedProblem& row : all.rows) {
    machine.cublas = row.cublas;
    machine.tuning = nullptr;
    out.predicted.add_known(all, row, make_plan(row.problem, machine));
    machine.tuning = table;
    out.tuned.add(row, make_plan(row.problem, machine));
    // All types' rows: one of fp16 says as much of bf16 as its own.
    auto rest = std::make_shared<TuningTable>(*table);
    std::erase_if(rest->rows, [&](const TunedRow& other) {
      const Problem& p = other.problem;
      return p.op == row.problem.op && p.ranks == row.problem.ranks && p.m == row.problem.m &&
             p.n == row.problem.n && p.k == row.problem.k && p.activation == row.problem.activation;
    });
    ASSERT_LT(rest->rows.size(), table->rows.size()) << row.name;
    machine.tuning = rest;
    out.without.add_known(all, row, make_plan(row.problem, machine));
  }
  for (Regret* regret : {&out.predicted, &out.tuned, &out.without}) regret->print();
  EXPECT_LE(out.tuned.mean(), 0.01);
  EXPECT_LE(out.tuned.worst(), 0.04);
}

TEST(PlanRegret, OfTwoGpusIsSmall) {
  Regrets two;
  ASSERT_NO_FATAL_FAILURE(measure_regrets(2, two));
  EXPECT_LE(two.predicted.mean(), 0.07);
  EXPECT_LE(two.without.mean(), 0.03);
  // 10 % is what is wanted. The farthest are gathers of 256 rows, whose p80 is predicted 25 % too
  // slow.
  EXPECT_LE(two.without.worst(), 0.16);
  EXPECT_EQ(two.predicted.newer + two.without.newer, 0);
  EXPECT_EQ(two.without.untimed, 0);
}

TEST(PlanRegret, OfFourGpusIsSmallWithATable) {
  Regrets four;
  measure_regrets(4, four);
}

TEST(PlanRegret, OfFourGpusIsSmallWithoutATable) {
  Machine machine = cuda_machine();
  machine.tuning = nullptr;
  for (const char* gpus : {"nvidia-h200-tp4", "nvidia-h100-tp4"}) {
    const auto all = timed_problems(fmt::format("{}/tune.jsonl", gpus));
    ASSERT_GE(all.rows.size(), 20U);
    Regret predicted{gpus};
    for (const TimedProblem& row : all.rows) {
      machine.cublas = row.cublas;
      predicted.add_known(all, row, make_plan(row.problem, machine));
    }
    predicted.print();
    // No four GPUs have run since there are gate and up with tokens across, and tiles of one CTA.
    EXPECT_LE(predicted.newer, 25);
    EXPECT_LE(predicted.mean(), 0.045);
    // The farthest behind is a gemm_ar of 256 rows, whose wave by columns is predicted too fast.
    EXPECT_LE(predicted.worst_timed, 0.23);
  }
}

/// The rule's tiles, which calls take without a table.
TEST(PlanRegret, OfTilesOfExpertsIsSmall) {
  std::ifstream in(in_source_tree("benchmarks/nvidia-h200/moe.tune.jsonl"));
  Regret rule{"rule of tiles"};
  for (std::string line; std::getline(in, line);) {
    const json r = json::parse(line);
    const GroupedProduct p{r.at("rows"),   r.at("rank_n"),
                           r.at("rank_k"), r.at("experts"),
                           r.at("gated"),  *dtype_named(r.at("dtype").get<std::string>())};
    std::map<std::string, double> us;
    for (const json& c : r.at("candidates")) us.emplace(c.at("tiles"), c.at("us"));
    ASSERT_EQ(us.size(), std::size(kSm90GroupedShapes)) << line;
    const std::string tiles(sm90_grouped_shape(p).name);
    const double fastest = r.at("candidates").at(0).at("us");
    rule.rows.emplace_back(us.at(tiles) / fastest - 1,
                           fmt::format("{} rows of {} experts, n {}, k {}: {:.1f} us, {:.1f} by {}",
                                       p.rows, p.experts, p.n, p.k, us.at(tiles), fastest, tiles));
  }
  ASSERT_GE(rule.rows.size(), 100U);
  rule.print();
  EXPECT_LE(rule.mean(), 0.01);
  EXPECT_LE(rule.worst(), 0.04);
}

}  // namespace
}  // namespace tilelace::plan
