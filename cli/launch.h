// SPDX-License-Identifier: Apache-2.0
// Starts a program once a rank, with what a launcher says in the environment, and ends them all.
#pragma once
#include <string>
#include <vector>

namespace tilelace::cli {

struct LaunchOptions {
  int ranks = 1;
  bool tag = false;    ///< output comes line by line, with the rank in front
  double grace_s = 5;  ///< from the request to end to the kill
  std::vector<std::string> command;
};

/// Runs until every rank has ended; nothing of them, and not their meeting place, is left when it
/// returns or throws. The exit code of the first rank that failed (128 + n for signal n), else 0.
/// Errors: usage (the program cannot be started), system, Interrupted.
int launch(const LaunchOptions& options);

}  // namespace tilelace::cli
