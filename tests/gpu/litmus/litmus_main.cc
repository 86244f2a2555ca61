// SPDX-License-Identifier: Apache-2.0
// gpu_litmus: every verb moves changing data between all GPUs, and every word is checked; then the
// same with a fence, a wait or an order taken away.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/check.h"
#include "litmus_cases.h"
#include "program.h"

extern char** environ;

namespace tilelace::gpu_test {
namespace {

constexpr double kChildSeconds = 120;

/// Once more with one hardware queue a device: the number is read when a process starts CUDA.
int run_child(const LitmusOptions& options) {
  std::vector<std::string> words = {"gpu_litmus",
                                    "--only",
                                    "copy_engine",
                                    "--connections",
                                    "1",
                                    "--ranks",
                                    std::to_string(options.ranks),
                                    "--rounds",
                                    std::to_string(options.rounds)};
  if (!options.json.empty()) words.insert(words.end(), {"--append", "--json", options.json});
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
  if (error != 0)
    raise(ErrorKind::system, "gpu_litmus: running itself, got error {}, expected 0", error);
  const double end = now_s() + kChildSeconds;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (now_s() > end)
      raise(ErrorKind::timeout,
            "gpu_litmus: the copy-engine cases with one connection, got no end in {} s (process "
            "{}), expected one",
            kChildSeconds, child);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

bool print_table(const std::vector<LitmusRow>& rows, int ranks) {
  bool good = true;
  fmt::print("{:<28} {:<32} {:>9} {:>9} {:>8}  {}\n", "verb", "mutant", "bytes", "rounds",
             "us/round", "verdict");
  for (const LitmusRow& r : rows) {
    const std::string bytes = r.bytes > 0 ? fmt::format("{:.0f}", r.bytes) : "256, 32K";
    fmt::print("{:<28} {:<32} {:>9} {:>9.0f} {:>8.2f}  {}\n", r.name,
               r.mutant.empty() ? "-" : r.mutant, bytes, r.rounds, r.us, r.verdict());
    if (!r.good() && !r.first.empty()) fmt::print("    first wrong word: {}\n", r.first);
    good = good && r.good();
  }
  fmt::print("litmus on {} ranks: {} rows, {}\n", ranks, rows.size(), good ? "good" : "FAILED");
  return good;
}

int run(LitmusOptions options) {
  if (options.connections > 0)
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(options.connections).c_str(), 1);
  options.ranks = choose_ranks(options.ranks);
  const bool copies =
      selected(options, "copy_engine/stream") || selected(options, "copy_engine/graph");
  int child = 0;
  if (options.child && options.connections == 0 && copies) {
    { const JsonLines truncated(options.json, options.append); }
    options.append = true;
    child = run_child(options);
  }
  JsonLines json(options.json, options.append);
  std::vector<LitmusRow> rows;
  run_ranks(options.ranks, [&](Rank& rank) {
    auto mine = run_litmus_cases(rank, options, json);
    for (LitmusRow& r : run_copy_litmus(rank, options, json)) mine.push_back(std::move(r));
    if (rank.rank == 0) rows = std::move(mine);
  });
  require(!rows.empty(), "--only: got {}, expected part of a verb's name", options.only);
  const bool good = print_table(rows, options.ranks);
  return child != 0 ? child : good ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Do the verbs publish what they say, on these GPUs?");
  LitmusOptions options;
  bool no_child = false;
  app.add_option("--ranks", options.ranks, "ranks (default: every GPU)");
  app.add_option("--rounds", options.rounds, "rounds a case; mutants run a quarter")
      ->check(CLI::Range(8U, 10000000U));
  app.add_option("--only", options.only, "only verbs whose name holds this");
  app.add_option("--json", options.json, "write JSON lines to this file, - for standard output");
  app.add_flag("--append", options.append, "append to the file");
  app.add_option("--connections", options.connections, "CUDA_DEVICE_MAX_CONNECTIONS of this run")
      ->check(CLI::Range(1, 32));
  app.add_flag("--no-child", no_child, "do not run the copy engine's cases with one connection");
  return run_program("gpu_litmus", app, argc, argv, [&] {
    options.child = !no_child;
    return run(options);
  });
}
