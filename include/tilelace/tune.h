// SPDX-License-Identifier: Apache-2.0
// Plans of GPU ranks by measurement, from a program; `tilelace tune` is the command
// (docs/tuning.md).
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilelace/communicator.h"
#include "tilelace/plan.h"

namespace tilelace {

/// What tune() does and how long it may take.
struct TuneOptions {
  double seconds = 480;        ///< problems that would begin later are left out; more than 0
  double problem_seconds = 0;  ///< that looks at one problem may take; 0: all that are wanted
  int candidates = 3;  ///< plans of each kind that are timed, best predictions first; 1 to 1000
  bool again = false;  ///< problems that the communicator's tables have, too
  bool force = false;  ///< also on GPUs that others use or that heat slows down
};

/// A problem, which of its plans was the fastest, and what was seen.
struct TunedProblem {
  Problem problem;          ///< what plans depend on: op, ranks, m, n, k, dtype, SwiGLU or not
  Plan plan;                ///< the fastest of those that were timed
  double us = 0;            ///< a call, on the slowest rank
  double predicted_us = 0;  ///< of the prediction's own choice, as measured; 0: time was over
  std::size_t plans = 0;    ///< that were timed
};

/// What tune() found; equal on every rank.
struct TuneResult {
  std::vector<TunedProblem> rows;  ///< of this tune, in the order of the problems
  std::size_t left = 0;            ///< problems that time was too short for
  /// What ranks may be given (CommunicatorOptions::tuning): these rows and all that this
  /// communicator tuned before; null where there are none.
  std::shared_ptr<const plan::TuningTable> table;
  std::string text;  ///< the same as a file
};

/// Times each problem's best predictions of every kind of plan in CUDA graphs, on random operands
/// of its own that L2 does not hold, finds the fastest by successive halving, checks its result
/// against sums in fp64, and keeps it: the communicator's later calls of the problem take it, and
/// results may then differ in their last bits from those before. Problems that differ in what plans
/// do not depend on are one. Collective: the same problems and options on every rank, no call under
/// way; the slowest rank's times decide, on all ranks alike. Beside a communicator of its own,
/// which is gone at the end, a rank has memory for one problem's operands and staging at a time.
/// Errors: usage (CPU ranks, a share of the device, problems that no GPU rank has, options), system
/// (a plan whose result is wrong or that fails; a GPU that is throttled or shared, which names what
/// was seen; memory), peer, timeout.
TuneResult tune(Communicator&, std::span<const Problem>, const TuneOptions& = {});

/// Writes rows as a table, with the rows of the file that it takes the place of, if that is a table
/// of the same GPUs and kernels. The file is never half written. Local: one rank does it. Errors:
/// usage (no place for it, a file there that is no table).
void write_tuning(const TuneResult&, const std::string& file);

}  // namespace tilelace
