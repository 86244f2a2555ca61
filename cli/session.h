// SPDX-License-Identifier: Apache-2.0
// The part that `run`, `bench` and `tune` share: ranks measure, rows are printed as they arrive,
// and records are written.
#pragma once
#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job.h"
#include "ranks.h"
#include "row.h"

namespace tilelace::cli {

/// Exit codes of all commands; `launch` also returns the code of a rank that failed.
constexpr int kDone = 0, kWrong = 1, kUsage = 2, kSystem = 3;

/// Options that several commands share, such as `run` and `bench`.
struct SessionOptions {
  int ranks = 2;
  int workers = 0;
  double timeout_s = 10;
  std::string m, dtype, link, json, backend = "cpu";
  std::vector<std::string> plans;
  int iterations = 0;
  int warmup = 2;
  bool processes = false, checked = false, quiet = false, no_check = false, multicast = false;
  /// If on_row is not empty, it is called with each row as the row arrives. The text that on_row
  /// returns is printed instead of the table's row.
  std::function<std::string(const Row&)> on_row;
};

/// Adds these options, except --no-check, to a command.
void add_session_options(CLI::App& command, SessionOptions& options);

/// Parses "cpu" or "cuda".
Device parse_device(const std::string& text);
/// The index of the named GPU architecture; no name: 0. Errors: usage (unknown name; CPU ranks).
int parse_architecture(const std::string& text, Device device);
/// How bytes travel between CPU ranks, as text: shared memory, or an emulated wire and its rates.
std::string link_text(const Machine& machine);
/// Adds --backend to a command.
void add_backend_option(CLI::App& command, std::string& backend);

/// Adds --n and --k, a product's extents, to a command. `of_mlp`: what --n is of an MLP, for help.
void add_extent_options(CLI::App& command, std::vector<std::int64_t>& n, std::int64_t& k,
                        const std::string& of_mlp = "");

/// Adds --plan to a command.
void add_plan_option(CLI::App& command, std::vector<std::string>& plans);

/// Throws a usage error if an option is for CPU ranks only, or if there are more ranks than GPUs.
void check_gpu_options(const SessionOptions& options, const GpuFacts& gpus);
CommunicatorOptions group_options(const SessionOptions& options);
/// Puts the options into the workload. The jobs must be set before, since several --plan options
/// make copies of jobs. Errors: usage (wrong options; fewer GPUs than ranks), system (no driver).
void apply(const SessionOptions& options, Workload& work);

/// Runs the workload and returns the exit code.
int run_session(const Workload& work, const SessionOptions& options);

}  // namespace tilelace::cli
