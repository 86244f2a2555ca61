// SPDX-License-Identifier: Apache-2.0
// Runs cases on a group of ranks (threads here) and judges every rank's result of every call.
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

/// What a run should do beside the plain thing.
struct RunOptions {
  Fill fill = Fill::exact;
  int repeats = 1;     ///< how often the calls of a case are made, with new inputs each time
  int drop_rank = -1;  ///< this rank's part of the operand is left out: the check must fail
  /// Called with every rank's result of every call, checked or not.
  std::function<void(int rank, int call, const std::vector<TensorView>&)> observe;
};

class Runner {
 public:
  Runner(int ranks, int workers, double timeout_s = 30);

  /// Prepares all cases at once (they share staging), then makes their calls one after the other.
  /// Returns what went wrong, a line each; at most 20.
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
