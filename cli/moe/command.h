// SPDX-License-Identifier: Apache-2.0
// `tilelace bench` of mixtures of experts.
#pragma once
#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "session.h"

namespace tilelace::cli {

/// What bench takes for mixtures of experts alone, beside the options of a session.
struct MoeRequest {
  std::string routings = "uniform", activation = "swiglu";
  std::int64_t experts = 0, top_k = 0;
};

void add_moe_options(CLI::App& command, MoeRequest& request);
/// Names of those options.
std::vector<const char*> moe_options();

/// What bench takes for products, too: n is the inner width, k the hidden one.
struct MoeSizes {
  std::string ops, model;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
};

/// Runs it; the exit code. Errors: usage (options that mean nothing here, too).
int bench_moe(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
              const SessionOptions& session);

}  // namespace tilelace::cli
