// SPDX-License-Identifier: Apache-2.0
// What `run` and `bench` share: ranks measure, rows are printed as they arrive, records are
// written.
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

/// Options that `run` and `bench` share.
struct SessionOptions {
  int ranks = 2;
  int workers = 0;
  double timeout_s = 10;
  std::string m, dtype, link, json, backend = "cpu";
  std::vector<std::string> plans;
  int iterations = 0;
  int warmup = 2;
  bool processes = false, checked = false, quiet = false, no_check = false, multicast = false;
  /// Called with each row as it arrives, instead of printing the table; the text that it returns is
  /// printed.
  std::function<std::string(const Row&)> on_row;
};

/// Adds these options, except --no-check, to a command.
void add_session_options(CLI::App& command, SessionOptions& options);

/// Parses "cpu" or "cuda".
Device parse_device(const std::string& text);
/// The index of the named GPU architecture; no name: 0. Errors: usage (unknown name; CPU ranks).
int parse_architecture(const std::string& text, Device device);
/// How bytes travel between CPU ranks: shared memory, or an emulated wire with its rates.
std::string link_text(const Machine& machine);
/// Adds --backend to a command.
void add_backend_option(CLI::App& command, std::string& backend);

/// Adds --plan to a command.
void add_plan_option(CLI::App& command, std::vector<std::string>& plans);

/// Refuses options that GPU ranks do not have. Errors: usage.
void check_gpu_options(const SessionOptions& options, const GpuFacts& gpus);
CommunicatorOptions group_options(const SessionOptions& options);
/// Puts the options into the workload, whose jobs must be set before: several --plan make copies of
/// each job. Errors: usage (wrong options; fewer GPUs than ranks), system (no driver).
void apply(const SessionOptions& options, Workload& work);

/// Runs the workload and returns the exit code.
int run_session(const Workload& work, const SessionOptions& options);

}  // namespace tilelace::cli
