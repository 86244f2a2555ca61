// SPDX-License-Identifier: Apache-2.0
// Measured plans for GPU ranks, from a program; `tilelace tune` is the command
// (docs/tuning.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilelace/communicator.h"
#include "tilelace/moe.h"
#include "tilelace/plan.h"

namespace tilelace {

/// What tune() does and how long it may take.
struct TuneOptions {
  double seconds = 480;        ///< problems that would begin later are left out; more than 0
  double problem_seconds = 0;  ///< limit for one problem; 0: none
  int candidates = 3;          ///< plans timed per kind, best predictions first; 1 to 1000
  bool again = false;          ///< also problems that the communicator's tables have
  bool force = false;          ///< also on GPUs that others use or that heat slows down
};

/// A problem, its fastest plan, and the times.
struct TunedProblem {
  Problem problem;          ///< op, ranks, m, n, k, dtype, SwiGLU or not
  Plan plan;                ///< the fastest one that was timed
  double us = 0;            ///< time of a call on the slowest rank
  double predicted_us = 0;  ///< measured time of the planner's own choice; 0: not timed
  std::size_t plans = 0;    ///< how many were timed
};

/// The fastest tiles of a product of a layer of experts, and the times.
struct TunedExperts {
  std::int64_t m = 0;     ///< tokens of all ranks
  bool first = true;      ///< of the layer's first half, else of its second
  std::string tiles;      ///< their name, as `tilelace plan` prints it
  double us = 0;          ///< time of a product on the slowest rank
  double rule_us = 0;     ///< measured time of the tiles that are taken without a table
  std::size_t plans = 0;  ///< how many were timed
};

/// What tune() or tune_experts() found; equal on every rank.
struct TuneResult {
  std::vector<TunedProblem> rows = {};     ///< from this call, in the order of the problems
  std::vector<TunedExperts> experts = {};  ///< from this call, in the order of m
  std::size_t left = 0;                    ///< problems that were not reached in time
  /// A table for CommunicatorOptions::tuning: these rows and all that this communicator tuned
  /// before; null where there are none.
  std::shared_ptr<const plan::TuningTable> table;
  std::string text;  ///< the same table as the text of a file
};

/// Times the best predicted plans of every kind for each problem and finds the fastest by
/// successive halving. Calls run in CUDA graphs on random operands that do not fit L2. The fastest
/// plan's result is checked against fp64; later calls of the communicator use that plan, and their
/// results may differ in the last bits from earlier ones. Problems for which plans cannot differ
/// are timed once. Collective: the same problems and options on every rank, with no
/// call in progress; the times of the slowest rank decide. Memory: a temporary communicator, and
/// operands and staging of one problem at a time.
/// Errors: usage (CPU ranks, a share of the device, problems that GPU ranks cannot run, options),
/// system (a plan that fails or has a wrong result; a GPU that is throttled or shared, with what
/// was seen; memory), peer, timeout.
TuneResult tune(Communicator&, std::span<const Problem>, const TuneOptions& = {});

/// Times the tiles of both products of a layer of experts, for each number of tokens, as tune()
/// times plans: all ranks at once, in CUDA graphs, under random routings that favour no expert. The
/// fastest ones' results are checked against fp64. Later calls of such layers take these tiles: for
/// the number of tokens alone, whatever the routing. Collective: the same arguments on every rank,
/// but for layer.first. Options: candidates is ignored, for there are few tiles. Memory: operands
/// of one product at a time. Errors: as tune; usage (a layer that GPU ranks cannot run; more tokens
/// than layer.m).
TuneResult tune_experts(Communicator&, const MoeLayer& layer, std::span<const std::int64_t> m,
                        const TuneOptions& = {});

/// Writes the rows as a table. Rows of an existing file stay if it is a table for the same GPUs
/// and kernels. The file is never half written. Local: one rank does it. Errors: usage (the file
/// cannot be written, or an existing one is no table).
void write_tuning(const TuneResult&, const std::string& file);

}  // namespace tilelace
