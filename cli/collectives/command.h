// SPDX-License-Identifier: Apache-2.0
// `tilelace bench` of collectives.
#pragma once
#include <CLI/App.hpp>
#include <string>

#include "session.h"

namespace tilelace::cli {

/// What bench takes for collectives alone, beside the options of a session.
struct CollectiveRequest {
  std::string sizes;
  bool in_place = false, symmetric = false;
};

void add_collective_options(CLI::App& command, CollectiveRequest& request);

/// Whether these names are collectives. Errors: usage (a name of neither kind, both kinds).
bool are_collectives(std::string_view ops);

/// Runs it; the exit code. Errors: usage (options that mean nothing here, too).
int bench_collectives(const CLI::App& command, const std::string& ops, const std::string& baselines,
                      const CollectiveRequest& request, const SessionOptions& session);

}  // namespace tilelace::cli
