// SPDX-License-Identifier: Apache-2.0
// What gpu_conformance and gpu_op_check share: options, the start of a run, and the Machine that a
// rank's calls are planned for.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/rank/rank_calls.h"
#include "harness.h"
#include "ops/report.h"
#include "tilelace/error.h"

namespace tilelace::gpu_test {

constexpr std::array kOps{Op::ag_gemm, Op::gemm_rs, Op::gemm_ar};

struct SessionOptions {
  int ranks = 0;
  std::uint64_t seed = 1;
  double timeout_s = 20, limit_s = 0;
  std::vector<std::string> ops{"ag_gemm", "gemm_rs", "gemm_ar"};
  std::vector<std::string> dtypes{"bf16", "fp16"}, kinds;
  bool small = false, drop = false;
  std::string json, commit;
};

/// `ops`: the values that --ops allows.
void add_options(CLI::App& app, SessionOptions& o, const std::vector<std::string>& ops);

bool among(const std::vector<std::string>& names, std::string_view name);
/// The machine for which one rank's calls are planned. It has a share of the device's SMs if other
/// ranks or communicators also use the device.
Machine machine_of(int ranks, int communicators);
/// The plans to draw from, for the machine of machine_of().
WayRange ways_of(const SessionOptions& o, int ranks, int communicators);
cuda::RankShare share_of(const SessionOptions& o, int ranks, int communicators);

/// Runs `body`. If it throws an Error, adds `what` to its text. Every rank prints its error, since
/// the first error that is reported may be only a consequence of another rank's failure.
template <class Body>
void naming(const Rank& rank, const std::string& what, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    fmt::print(stderr, "rank {}: {} error: {} (in {})\n", rank.rank, name_of(e.kind()), e.what(),
               what);
    throw Error(e.kind(), fmt::format("{} (in {})", e.what(), what));
  }
}

struct Session {
  /// Time limit of `check` on all ranks.
  double limit_s = 60;
  std::function<void(Rank&, Report&)> check;
};

/// Runs the rest of main: `prepare` makes the session, then a thread per rank calls Session::check.
int run_session(const char* program, CLI::App& app, int argc, char** argv, const SessionOptions& o,
                const std::function<Session(int ranks)>& prepare);

}  // namespace tilelace::gpu_test
