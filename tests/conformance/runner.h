// SPDX-License-Identifier: Apache-2.0
// Runs cases on a group of ranks, which are threads, and checks every rank's result of every call.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cases.h"
#include "host_place.h"
#include "tilelace/tilelace.h"

namespace tilelace::conformance {

using test::Fill;

/// Options of a run.
struct RunOptions {
  Fill fill = Fill::exact;
  int repeats = 1;     ///< how often a case's calls are made, each time with new inputs
  int drop_rank = -1;  ///< the rank whose input is zeroed, so that the check must fail; -1: none
  /// Called with every rank's result of every call, before the check.
  std::function<void(int rank, int call, const std::vector<TensorView>&)> observe;
};

class Runner {
 public:
  Runner(int ranks, int workers, double timeout_s = 30);

  /// Prepares all cases at once, so that they share staging, then makes their calls one after the
  /// other. Returns at most 20 findings, one line each.
  std::vector<std::string> run(const std::vector<Case>& cases, const RunOptions& options);

  [[nodiscard]] std::vector<Communicator>& members() { return members_; }

 private:
  void run_rank(int rank, const std::vector<Case>& cases, const RunOptions& options);
  void report(const std::string& text);

  std::vector<Communicator> members_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
};

}  // namespace tilelace::conformance
