// SPDX-License-Identifier: Apache-2.0
// One rank's recordings for a row of the output: the fused op, and GEMMs alone, in graphs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "account.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "clocks.h"
#include "gpu_rank.h"

namespace tilelace::gpu_test {

/// A recording of one way to compute a row's problem, on one rank.
struct Recording {
  std::string plan;
  double us = 0;         ///< time of a call that records no events, on the slowest rank
  double traced_us = 0;  ///< time of a call that records events
  double resolution_ns = 0;
  /// The last calls of the last graph, by rank 0's clock. The first call is kept because the second
  /// begins where the first ends.
  std::vector<CallLine> calls;
  [[nodiscard]] std::vector<CallAccount> accounts(int multiprocessors) const;
};

struct RankRow {
  Recording fused;
  Recording same;  ///< the GEMM alone with the fused plan's tile
  Recording best;  ///< Tilelace's fastest GEMM alone
  double blas_us = 0;
  ClockOffset clock;
  int multiprocessors = 0;
  int chunks = 0;  ///< ag_gemm: chunks of a shard, each with a flag; else 0
};

class RankRecorder {
 public:
  /// Collective. Errors: usage (no memory), and those of the ops.
  RankRecorder(cli::GpuRank& gpu, const cli::Job& job, std::int64_t m);
  /// Collective.
  RankRow run();

 private:
  Recording record(const std::string& plan, const cli::GpuCall& call);
  Recording product(const plan::GemmPlan& plan);
  /// The plan of Tilelace's fastest GEMM alone.
  plan::GemmPlan best_product();
  void multiply(const plan::GemmPlan& plan, int turn);
  Plan fused_plan();
  /// The origin of times, read on this rank's clock. It is the same moment on every rank.
  std::uint64_t origin_ns(const std::vector<cuda::TracedLaunch>& launches, double offset_ns) const;

  cli::GpuRank& gpu_;
  const cli::Job& job_;
  Rank rank_;
  cli::RankWeights weights_;
  cli::CallTensors tensors_;
  plan::GemmProblem problem_;
  cuda::GemmWorkspace workspace_;
  ClockOffset clock_;
};

}  // namespace tilelace::gpu_test
