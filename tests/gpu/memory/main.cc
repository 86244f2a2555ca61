// SPDX-License-Identifier: Apache-2.0
// gpu_memory_check: shows on this machine's GPUs that symmetric memory is what its header says.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>

#include "checks.h"
#include "json_lines.h"
#include "launched.h"
#include "program.h"

namespace tilelace::comm::test {
namespace {

constexpr int kMostRanks = 16;

const std::vector<Check>& all_checks() {
  // The last one costs the last rank its life.
  static const std::vector<Check> checks = {{"transfers", check_transfers, true, true, false, 1},
                                            {"host", check_host_memory, true, false, false, 1},
                                            {"subgroup", check_subgroup, true, false, false, 2},
                                            {"cycles", check_cycles, true, true, false, 1},
                                            {"large", check_large, true, true, false, 1},
                                            {"failures", check_failures, true, false, false, 1},
                                            {"death", check_death, false, true, true, 2}};
  return checks;
}

void add_options(CLI::App& app, Options& o) {
  std::vector<std::string> names;
  for (const Check& check : all_checks()) names.emplace_back(check.name);
  app.add_option("--ranks", o.ranks, "ranks, default one a GPU; more share GPUs")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--model", o.model,
                 "threads, processes, hidden (processes that see one GPU), both (the first two), "
                 "launched (by torchrun or mpirun: RANK, WORLD_SIZE, ...), all (default)")
      ->check(CLI::IsMember({"threads", "processes", "hidden", "both", "all", "launched"}));
  app.add_option("--only", o.only, "one check only")->check(CLI::IsMember(names));
  app.add_option("--cycles", o.cycles, "how often memory is made, used and let go (default 200)")
      ->check(CLI::Range(1, 100000));
  app.add_option("--gib", o.gib, "GiB a rank of the large memory (default 8)")
      ->check(CLI::Range(1, 64));
  app.add_option("--json", o.json, "write a JSON line a check to this file, - for standard output");
  app.add_option("--commit", o.commit, "what the JSON lines give as commit");
}

int run(Options options) {
  { const gpu_test::JsonLines tried(options.json, true); }  // before a long run, not after it
  if (options.model == "launched") return run_launched(all_checks(), options);
  const Machine machine = look_at_machine();
  if (options.ranks == 0) options.ranks = std::min(machine.gpus, kMostRanks);
  fmt::print("{}\n{} ranks on {} GPUs\n", machine.capabilities, options.ranks, machine.gpus);
  Report report;
  for (const std::string model : {"threads", "processes", "hidden"}) {
    const bool both = options.model == "both" && model != "hidden";
    if (both || options.model == "all" || options.model == model)
      run_checks(model, all_checks(), options, machine, report);
  }
  report.write_json(options.json, machine, options.commit);
  report.print();
  return report.exit_code();
}

}  // namespace
}  // namespace tilelace::comm::test

int main(int argc, char** argv) {
  using namespace tilelace;
  comm::test::Options options;
  CLI::App app("Checks symmetric memory on GPUs", "gpu_memory_check");
  comm::test::add_options(app, options);
  return gpu_test::run_program("gpu_memory_check", app, argc, argv,
                               [&] { return comm::test::run(options); });
}
