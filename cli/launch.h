// SPDX-License-Identifier: Apache-2.0
// Starts a program once per rank, with a launcher's environment variables, and ends all of them.
#pragma once
#include <string>
#include <vector>

namespace tilelace::cli {

struct LaunchOptions {
  int ranks = 1;
  bool tag = false;    ///< print output by whole lines, each after its rank
  double grace_s = 5;  ///< time from the signal to end to the kill
  std::vector<std::string> command;
};

/// Runs until every rank has ended. When it returns or throws, all their processes have ended, and
/// the files in which they met are removed. Returns the exit code of the first rank that failed
/// (128 + n for signal n), else 0. Errors: usage (the program cannot be started), system,
/// Interrupted.
int launch(const LaunchOptions& options);

}  // namespace tilelace::cli
