// SPDX-License-Identifier: Apache-2.0
// `tilelace bench` of collectives.
#pragma once
#include <CLI/App.hpp>
#include <string>

#include "session.h"

namespace tilelace::cli {

/// Options of `bench` that apply only to collectives.
struct CollectiveRequest {
  std::string sizes;
  bool in_place = false, symmetric = false;
};

void add_collective_options(CLI::App& command, CollectiveRequest& request);

/// Whether the names in a comma-separated list are collectives; if not, they are ops or MLPs.
/// Errors: usage (an unknown name; collectives mixed with others).
bool are_collectives(std::string_view ops);

/// Runs the benchmark and returns the exit code. Errors: usage (also if options are given that
/// collectives do not have).
int bench_collectives(const CLI::App& command, const std::string& ops, const std::string& baselines,
                      const CollectiveRequest& request, const SessionOptions& session);

}  // namespace tilelace::cli
