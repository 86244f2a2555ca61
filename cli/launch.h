// SPDX-License-Identifier: Apache-2.0
// Starts a program once per rank, with a launcher's environment variables, and ends every rank.
#pragma once
#include <string>
#include <vector>

namespace tilelace::cli {

struct LaunchOptions {
  int ranks = 1;
  bool tag = false;    ///< print output in whole lines, each prefixed with its rank
  double grace_s = 5;  ///< seconds from SIGTERM to SIGKILL for ranks that must be ended
  std::vector<std::string> command;
};

/// Runs until every rank has ended. If one rank fails, launch ends the other ranks. When launch
/// returns or throws, all processes of the ranks have ended, and the folder in which ranks met is
/// removed. Returns the exit code of the first rank that failed (128 + n for signal n), else 0.
/// Errors: usage (the program cannot be started), system, Interrupted.
int launch(const LaunchOptions& options);

}  // namespace tilelace::cli
