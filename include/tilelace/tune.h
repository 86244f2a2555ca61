// SPDX-License-Identifier: Apache-2.0
// Measures plans for GPU ranks from within a program. The command `tilelace tune` does the same
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
  double seconds = 480;  ///< problems that would start after this time are left out; more than 0
  double problem_seconds = 0;  ///< limit for one problem; 0: none
  int candidates = 3;          ///< number of timed plans per kind, best predicted first; 1 to 1000
  bool again = false;          ///< true: problems in the communicator's tables are tuned, too
  bool force = false;          ///< true: GPUs may be throttled or in use by other programs
};

/// A problem, its fastest plan, and the times.
struct TunedProblem {
  Problem problem;          ///< only op, ranks, m, n, k, dtype and whether it is SwiGLU are set
  Plan plan;                ///< the fastest plan that was timed
  double us = 0;            ///< time of a call on the slowest rank
  double predicted_us = 0;  ///< measured time of the plan predicted to be fastest; 0: not timed
  std::size_t plans = 0;    ///< number of plans that were timed
};

/// A kind of tiles for a product of experts, and the time of a product with it.
struct TimedTiles {
  std::string tiles;  ///< name, as `tilelace plan` prints it
  double us = 0;      ///< on the slowest rank
};

/// The fastest tiles for one of the two products of a layer of experts, and the times.
struct TunedExperts {
  std::int64_t m = 0;             ///< tokens of all ranks
  bool first = true;              ///< true: the layer's first product; false: its second product
  std::vector<TimedTiles> timed;  ///< all kinds that were timed, the fastest first
  double rule_us = 0;  ///< measured time of the tiles that calls use without a table; 0: not timed
};

/// What tune() or tune_experts() found; equal on every rank.
struct TuneResult {
  std::vector<TunedProblem> rows = {};     ///< problems that this call tuned, in the order given
  std::vector<TunedExperts> experts = {};  ///< products that this call tuned, in the order of m
  std::size_t left = 0;                    ///< problems or products for which no time was left
  /// A table for CommunicatorOptions::tuning with these rows and all rows that this communicator
  /// tuned before; null if there are no rows.
  std::shared_ptr<const plan::TuningTable> table;
  std::string text;  ///< the same table as the text of a file
};

/// For each problem, times the best predicted plans of every kind and finds the fastest plan by
/// successive halving. Calls run in CUDA graphs on random operands that do not fit in L2.
/// The result of the fastest plan is checked against fp64. Later calls of the communicator use that
/// plan, so their results may differ in the last bits from those of earlier calls. Problems that
/// differ only in facts that plans ignore, such as a bias, are timed once. Collective: the same
/// problems and options on every rank, with no call in progress; the times of the slowest rank
/// decide. Memory: a temporary communicator, and operands and staging of one problem at a time.
/// Errors: usage (CPU ranks, max_workers not 0, problems that GPU ranks cannot run, wrong options),
/// system (a plan that fails or has a wrong result; a GPU that is throttled or shared; memory),
/// peer, timeout.
TuneResult tune(Communicator&, std::span<const Problem>, const TuneOptions& = {});
/// Replaces a tune() that this rank cannot make: the peers get a usage error with this reason
/// instead of waiting. Collective. Errors: usage (always, with this reason), peer, timeout.
void refuse_tune(Communicator&, const std::string& reason);

/// Times the tiles of both products of a layer of experts, for each number of tokens, as tune()
/// times plans: all ranks at once, in CUDA graphs, with random routings that favour no expert. The
/// results of the fastest tiles are checked against fp64. Later calls of such layers use these
/// tiles, which depend on the number of tokens but not on the routing. Collective: the same
/// arguments on every rank, except layer.first. Options: `candidates` is ignored, since there are
/// few kinds of tiles. Memory: operands of one product at a time. Errors: as tune; usage (a layer
/// that GPU ranks cannot run; more tokens than layer.m).
TuneResult tune_experts(Communicator&, const MoeLayer& layer, std::span<const std::int64_t> m,
                        const TuneOptions& = {});

/// Writes the rows as a table. Rows of an existing file stay if the file is a table for the same
/// GPUs and kernels. The file is never half written. Local: one rank writes. Errors: usage (the
/// file cannot be written, an existing file is no table, or the result has no rows).
void write_tuning(const TuneResult&, const std::string& file);

}  // namespace tilelace
