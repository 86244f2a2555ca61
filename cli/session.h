// SPDX-License-Identifier: Apache-2.0
// The common course of run and bench: ranks measure, rows appear as they come, records are written.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job.h"
#include "ranks.h"
#include "row.h"

namespace tilelace::cli {

/// Exit codes of every command.
constexpr int kDone = 0, kWrong = 1, kUsage = 2, kSystem = 3;

/// What run and bench take alike.
struct SessionOptions {
  int ranks = 2;
  int workers = 0;
  double timeout_s = 10;
  std::string m, dtype, link, json, backend = "cpu";
  std::vector<std::string> plans;
  int iterations = 0;
  int warmup = 2;
  bool processes = false, checked = false, quiet = false, no_check = false, multicast = false;
  /// Takes each row as it comes, instead of the table; what it returns is printed.
  std::function<std::string(const Row&)> on_row;
};

/// Adds the options; bench takes everything that has a meaning without a model.
void add_session_options(CLI::App& command, SessionOptions& options);

/// "cpu" or "cuda".
Device parse_device(const std::string& text);
/// Of GPUs: the one of this name, or the first. Errors: usage (another name; CPU ranks).
int parse_architecture(const std::string& text, Device device);
/// How bytes travel between CPU ranks: shared memory, or an emulated wire with its rates.
std::string link_text(const Machine& machine);
/// --backend, of every command that takes it.
void add_backend_option(CLI::App& command, std::string& backend);

/// --plan, of every command that takes it.
void add_plan_option(CLI::App& command, std::vector<std::string>& plans);

/// What GPU ranks do not have. Errors: usage.
void check_gpu_options(const SessionOptions& options, const GpuFacts& gpus);
CommunicatorOptions group_options(const SessionOptions& options);
/// Fills all but the jobs, which it makes fit for GPUs where the ranks have them. Errors: usage (of
/// options; fewer GPUs than ranks), system (no driver).
void apply(const SessionOptions& options, Workload& work);

/// Runs it; the exit code.
int run_session(const Workload& work, const SessionOptions& options);

}  // namespace tilelace::cli
