// SPDX-License-Identifier: Apache-2.0
// gpu_wait_check: a rank dies, stops or never comes while the others wait in a kernel, or the host
// aborts. Every survivor gets a typed error in time, and its process goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "harness.h"
#include "json_lines.h"
#include "program.h"
#include "wait_trial.h"

namespace tilelace::gpu_test {
namespace {

struct Options {
  int ranks = 0;
  int times = 3;
  double bound_s = 2;
  std::string model = "both";
  std::string json;
};

struct Row {
  std::string model;
  Fault fault;
  int times = 0;
  int good = 0;
  double worst_s = 0;
  std::string text;   ///< of the last error
  std::string wrong;  ///< the first trial that failed
};

/// How late the last rank was: after its launch, or after abort().
double worst_of(Fault fault, const std::vector<Report>& reports) {
  double worst = 0, aborted = 0;
  for (const Report& r : reports) aborted = std::max(aborted, r.aborted_at);
  for (const Report& r : reports)
    worst = std::max(worst, fault == Fault::abort ? r.ended_at - aborted : r.seconds);
  return worst;
}

void judge(Row& row, const std::vector<Report>& reports, std::size_t expected) {
  ++row.times;
  const double worst = worst_of(row.fault, reports);
  row.worst_s = std::max(row.worst_s, worst);
  std::string wrong;
  if (reports.size() != expected)
    wrong = fmt::format("{} of {} ranks reported", reports.size(), expected);
  for (const Report& r : reports) {
    if (!r.good)
      wrong += fmt::format("{}rank {}: {}", wrong.empty() ? "" : " | ", r.rank, r.words());
    if (r.good && !r.words().empty()) row.text = fmt::format("rank {}: {}", r.rank, r.words());
  }
  if (wrong.empty() && row.fault == Fault::abort && worst > kAbortSeconds)
    wrong = fmt::format("kernels ended {:.0f} ms after abort(), expected {:.0f}", worst * 1e3,
                        kAbortSeconds * 1e3);
  if (wrong.empty())
    ++row.good;
  else if (row.wrong.empty())
    row.wrong = fmt::format("trial {}: {}", row.times, wrong);
}

void record(JsonLines& json, const Row& row, const Options& o, const std::vector<Report>& reports,
            int victim) {
  Json line;
  line["schema"] = "tilelace.waits/1";
  line["model"] = row.model;
  line["fault"] = name_of(row.fault);
  line["ranks"] = o.ranks;
  line["victim"] = row.fault == Fault::abort ? Json(nullptr) : Json(victim);
  line["bound_s"] = o.bound_s;
  line["worst_s"] = worst_of(row.fault, reports);
  line["reports"] = Json::array();
  for (const Report& r : reports)
    line["reports"].push_back({{"rank", r.rank},
                               {"good", r.good},
                               {"watches_group", r.watches},
                               {"seconds", r.seconds},
                               {"text", r.words()}});
  line["time"] = utc_now();
  json.write(line);
}

Row run_row(const std::string& model, Fault fault, const Options& o, JsonLines& json) {
  Row row{model, fault, 0, 0, 0, {}, {}};
  const bool threads = model == "threads";
  for (int i = 0; i < o.times; ++i) {
    const int victim = i % o.ranks;
    const double bound_s = fault == Fault::abort ? 10 : o.bound_s;
    const auto reports = threads ? run_thread_trial(fault, o.ranks, victim, bound_s)
                                 : run_process_trial(fault, o.ranks, victim, bound_s);
    const bool all = threads || fault == Fault::abort;
    judge(row, reports, static_cast<std::size_t>(all ? o.ranks : o.ranks - 1));
    record(json, row, o, reports, victim);
  }
  return row;
}

/// Asked in a child: this process forks later, and must not have used CUDA by then.
int count_devices() {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(std::min(comm::device_count(), 16));
    } catch (const std::exception& e) {
      fmt::print(stderr, "gpu_wait_check: {}\n", e.what());
      _exit(255);
    }
  }
  int status = 0;
  const bool told = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
  if (!told || WEXITSTATUS(status) == 255)
    raise(ErrorKind::system, "devices, got an error, expected a count");
  return WEXITSTATUS(status);
}

bool print_table(const std::vector<Row>& rows, const Options& o) {
  bool good = true;
  fmt::print("{:<10} {:<24} {:>8} {:>10} {:>10}  {}\n", "model", "fault", "good", "worst", "bound",
             "last error");
  for (const Row& r : rows) {
    const double bound = r.fault == Fault::abort ? kAbortSeconds : o.bound_s + kSlackSeconds;
    fmt::print("{:<10} {:<24} {:>8} {:>8.3f} s {:>8.3f} s  {}\n", r.model, name_of(r.fault),
               fmt::format("{}/{}", r.good, r.times), r.worst_s, bound, r.text);
    if (!r.wrong.empty()) fmt::print("    FAILED: {}\n", r.wrong);
    good = good && r.good == r.times;
  }
  fmt::print("waits on {} ranks: {}\n", o.ranks, good ? "good" : "FAILED");
  return good;
}

int run(Options o) {
  const int devices = count_devices();
  require(devices > 0, "--ranks: got no device, expected at least one");
  if (o.ranks == 0) o.ranks = devices;
  require(o.ranks >= 2 && o.ranks <= 16, "--ranks: got {}, expected 2 to 16", o.ranks);
  JsonLines json(o.json, false);
  std::vector<Row> rows;
  if (o.model != "threads")  // first: these fork
    for (const Fault f : {Fault::exits, Fault::stops, Fault::abort})
      rows.push_back(run_row("processes", f, o, json));
  if (o.model != "processes")
    for (const Fault f : {Fault::absent, Fault::abort})
      rows.push_back(run_row("threads", f, o, json));
  return print_table(rows, o) ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Do waits in kernels end, with a typed error, when a rank does not come?");
  Options options;
  app.add_option("--ranks", options.ranks, "ranks (default: every GPU)");
  app.add_option("--times", options.times, "trials of every fault")->check(CLI::Range(1, 1000));
  app.add_option("--bound", options.bound_s, "bound of a wait in seconds")
      ->check(CLI::Range(0.2, 20.0));
  app.add_option("--model", options.model, "threads, processes or both")
      ->check(CLI::IsMember({"threads", "processes", "both"}));
  app.add_option("--json", options.json, "write JSON lines to this file, - for standard output");
  return run_program("gpu_wait_check", app, argc, argv, [&] { return run(options); });
}
