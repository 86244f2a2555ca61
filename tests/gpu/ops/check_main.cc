// SPDX-License-Identifier: Apache-2.0
// gpu_op_check: conformance of ag_gemm on the GPUs of one process, a thread a rank. Random problems
// and edges with every kind of plan, exact integers and fp64; long runs, back to back and with
// delays. Exit 0: all right, 1: a result was wrong, 2: usage, 3: a wait expired or the system.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <mutex>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "ops/conformance.h"
#include "ops/stress.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kBatch = 20;  // cases that share one staging
constexpr int kMostLines = 12;      // of wrong cases

struct Options {
  int ranks = 0;
  int shapes = 100;
  long stress = 0, straggle = 0;
  std::uint64_t seed = 1;
  int only = -1;
  double timeout_s = 20;
  std::vector<std::string> dtypes{"bf16", "fp16"};
  bool drop = false;
  std::string json, commit;
};

/// What the ranks found, put together.
class Report {
 public:
  Report(const Options& o, int ranks) : o_(o), ranks_(ranks), json_(o.json, true) {}

  void add(const Case& c, const Tally& t) {
    const std::scoped_lock lock(mutex_);
    calls_ += t.calls;
    worst_ = std::max(worst_, t.worst);
    if (o_.drop && c.problem.m > 0) {
      missed_ += t.calls - t.wrong;
      if (t.calls != t.wrong && lines_++ < kMostLines)
        fmt::print("NOT NOTICED in {} of {} calls: {}\n", t.calls - t.wrong, t.calls, text_of(c));
    } else if (!o_.drop && t.wrong > 0) {
      ++wrong_;
      if (lines_++ < kMostLines)
        fmt::print("WRONG in {} of {} calls: {}\n      {}\n", t.wrong, t.calls, text_of(c),
                   t.first);
      std::fflush(stdout);
    }
  }

  /// One row of the table, from rank 0, when all ranks are through with the type.
  void conclude(DType dtype, const std::vector<Case>& cases) {
    const double limit = 0.52 * unit_roundoff(dtype);
    std::map<std::string, int> kinds;
    for (const Case& c : cases) ++kinds[kind_of(c.plan)];
    std::string by_kind;
    for (const auto& [kind, count] : kinds) by_kind += fmt::format(", {} {}", kind, count);
    rows_.push_back(fmt::format(
        "{}: {} shapes ({} exact{}), {} calls: {} {}, worst relative error {:.5f} (limit {:.5f})",
        name_of(dtype), cases.size(), (cases.size() + 1) / 2, by_kind, calls_,
        o_.drop ? missed_ : wrong_,
        o_.drop ? "passed without a rank's rows" : "wrong cases (counted on each rank)", worst_,
        limit));
    const bool good = (o_.drop ? missed_ : wrong_) == 0 && (o_.drop || worst_ <= limit);
    bad_ = bad_ || !good;
    Json line = head("tilelace.conformance/1", dtype);
    line["shapes"] = cases.size();
    line["calls"] = calls_;
    line["kinds"] = kinds;
    line["wrong"] = wrong_;
    line["worst_error"] = worst_;
    line["dropped"] = o_.drop;
    line["missed"] = o_.drop ? Json(missed_) : Json(nullptr);
    line["verified"] = good;
    json_.write(line);
    calls_ = missed_ = wrong_ = 0;
    worst_ = 0;
  }

  /// Of rank 0; `troubles`: of all ranks.
  void add(const std::string& kind, Pace pace, const StressResult& r, DType dtype,
           const std::vector<std::string>& troubles) {
    std::size_t wrong = 0;
    for (const std::string& t : troubles) wrong += t.empty() ? 0 : 1;
    for (const std::string& t : troubles)
      if (!t.empty() && !o_.drop) fmt::print("WRONG: {}, {}: {}\n", kind, name_of(pace), t);
    const bool good = o_.drop ? wrong == troubles.size() : wrong == 0;
    bad_ = bad_ || !good;
    rows_.push_back(fmt::format("{}: {} {}, {} calls, {:.1f} us a call: wrong on {} of {} ranks{}",
                                name_of(dtype), name_of(pace), kind, r.calls, r.us, wrong,
                                troubles.size(),
                                o_.drop ? " (an input is lost: must be all)" : ""));
    fmt::print("{}\n", rows_.back());
    std::fflush(stdout);
    Json line = head("tilelace.stress/1", dtype);
    line["kind"] = kind;
    line["pace"] = name_of(pace);
    line["calls"] = r.calls;
    line["us"] = r.us;
    line["wrong_ranks"] = wrong;
    line["dropped"] = o_.drop;
    line["verified"] = good;
    json_.write(line);
  }

  int print() const {
    fmt::print("\n{} ranks on {} of {}\n", ranks_, std::min(ranks_, comm::device_count()),
               device_name());
    for (const std::string& row : rows_) fmt::print("{}\n", row);
    fmt::print("{}\n", bad_ ? "WRONG" : "all right");
    return bad_ ? 1 : 0;
  }

 private:
  [[nodiscard]] Json head(const char* schema, DType dtype) const {
    Json line;
    line["schema"] = schema;
    line["op"] = name_of(Op::ag_gemm);
    line["backend"] = "cuda";
    line["ranks"] = ranks_;
    line["dtype"] = name_of(dtype);
    line["seed"] = o_.seed;
    line["device"] = device_name();
    line["driver"] = driver_version();
    line["commit"] = o_.commit.empty() ? Json(nullptr) : Json(o_.commit);
    line["time"] = utc_now();
    return line;
  }

  const Options& o_;
  int ranks_;
  JsonLines json_;
  std::mutex mutex_;
  std::vector<std::string> rows_;
  int calls_ = 0, missed_ = 0, wrong_ = 0, lines_ = 0;
  double worst_ = 0;
  bool bad_ = false;
};

/// What one rank may count on: its share of the multiprocessors where ranks share a device.
plan::GemmMachine machine_of(int ranks) {
  const int devices = std::min(ranks, comm::device_count());
  plan::GemmMachine machine;
  for (int d = 0; d < devices; ++d) {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, d), "SMs");
    machine.multiprocessors = std::min(machine.multiprocessors, count);
  }
  machine.multiprocessors /= (ranks + devices - 1) / devices;
  return machine;
}

/// Everything that the ranks' threads share; made before they start.
struct Work {
  std::map<DType, std::vector<Case>> cases;
  std::vector<DType> dtypes;
  std::vector<Problem> stressed;
  std::vector<PlansByKind> kinds;  ///< of each of them
};

Work work_of(const Options& o, int ranks) {
  const auto machine = machine_of(ranks);
  Work work;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (std::find(o.dtypes.begin(), o.dtypes.end(), name_of(dtype)) == o.dtypes.end()) continue;
    work.dtypes.push_back(dtype);
    auto cases =
        draw_cases(o.shapes, ranks, dtype, machine, o.seed * 2 + static_cast<std::uint64_t>(dtype));
    if (o.only >= 0) std::erase_if(cases, [&](const Case& c) { return c.index != o.only; });
    work.cases[dtype] = std::move(cases);
  }
  if (o.stress <= 0 && o.straggle <= 0) return work;
  work.stressed = stress_problems(ranks, work.dtypes.at(0));
  for (const Problem& p : work.stressed) work.kinds.push_back(plans_by_kind(p, machine));
  return work;
}

/// Says in an error what was being done.
template <class Body>
void naming(const std::string& what, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    throw Error(e.kind(), fmt::format("{} (in {})", e.what(), what));
  }
}

void check_shapes(Rank& rank, const Options& o, const Work& work, Report& report) {
  OpCheck check(rank, o.timeout_s);
  for (const auto& [dtype, cases] : work.cases) {
    for (std::size_t at = 0; at < cases.size(); at += kBatch) {
      const auto end = std::min(cases.size(), at + kBatch);
      std::vector<Problem> problems;
      for (std::size_t i = at; i < end; ++i) problems.push_back(cases[i].problem);
      cuda::AgGemm op(*rank.group, rank.device, problems, o.timeout_s);
      for (std::size_t i = at; i < end; ++i) {
        const Drop lost = i % 2 == 0 ? Drop::input : Drop::reference;
        naming(text_of(cases[i]), [&] {
          report.add(cases[i], check.run(op, cases[i], o.drop ? lost : Drop::nothing));
        });
      }
      rank.meet();  // nobody's memory goes while a peer may still use it
    }
    rank.meet();
    if (rank.rank == 0) report.conclude(dtype, cases);
    rank.meet();
  }
}

void check_long(Rank& rank, const Options& o, const Work& work, Report& report) {
  if (work.stressed.empty()) return;
  std::map<std::string, int> kinds;
  for (const PlansByKind& of_problem : work.kinds)
    for (const auto& [kind, plans] : of_problem) ++kinds[kind];
  Stress stress(rank, work.stressed, work.kinds, o.timeout_s, o.drop);
  rank.meet();
  const auto run = [&](Pace pace, long calls) {
    if (calls <= 0) return;
    for (const auto& [kind, count] : kinds) {
      StressResult r;
      naming(fmt::format("{} {}", name_of(pace), kind), [&] { r = stress.run(kind, calls, pace); });
      const auto troubles = rank.group->all_gather(r.trouble, kMeetSeconds);
      if (rank.rank == 0) report.add(kind, pace, r, work.dtypes.at(0), troubles);
    }
  };
  run(Pace::eager, o.stress);
  run(Pace::graph, o.stress);
  run(Pace::mixed, o.stress / 4);
  run(Pace::delays, o.straggle);
  rank.meet();
}

int run(const Options& o) {
  const int ranks = choose_ranks(o.ranks);
  require(!o.dtypes.empty(), "--dtypes: got none, expected bf16 or fp16");
  Report report(o, ranks);
  const Work work = work_of(o, ranks);
  run_ranks(ranks, [&](Rank& rank) {
    cuda::load_gemm_kernels();
    if (o.shapes > 0) check_shapes(rank, o, work, report);
    check_long(rank, o, work, report);
  });
  return report.print();
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Checks ag_gemm on the GPUs of this machine against exact integers and fp64");
  Options o;
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU; more share devices)");
  app.add_option("--shapes", o.shapes, "random problems a type")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--stress", o.stress,
                 "calls back to back, of each kind of plan: eager, in a graph, in many")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--straggle", o.straggle, "calls with random delays, of each kind of plan")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed, "of problems and data")->capture_default_str();
  app.add_option("--only", o.only, "only this case of the problems that the seed gives");
  app.add_option("--dtypes", o.dtypes, "of bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  app.add_option("--timeout-s", o.timeout_s, "bound of every wait")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--drop", o.drop, "test of the test: a rank's rows are lost, must be noticed");
  app.add_option("--json", o.json, "appends JSON lines to this file, - for standard output");
  app.add_option("--commit", o.commit, "goes into the records");
  return run_program("gpu_op_check", app, argc, argv, [&] { return run(o); });
}
