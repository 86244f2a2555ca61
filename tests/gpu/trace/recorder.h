// SPDX-License-Identifier: Apache-2.0
// A rank's side of a row: the fused op and products alone, recorded in graphs under load.
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

/// One way of doing a row, on one rank.
struct Recording {
  std::string plan;
  double us = 0;         ///< a call that writes no events, slowest rank
  double traced_us = 0;  ///< one that does
  double resolution_ns = 0;
  /// The last calls of the last graph, on rank 0's clock; the first of them only ends where the
  /// second begins.
  std::vector<CallLine> calls;
  [[nodiscard]] std::vector<CallAccount> accounts(int multiprocessors) const;
};

struct RankRow {
  Recording fused;
  Recording same;  ///< the product with the fused plan's tile
  Recording best;  ///< the fastest own product
  double blas_us = 0;
  ClockOffset clock;
  int multiprocessors = 0;
  int chunks = 0;  ///< flags of a source, of ag_gemm; else 0
};

class RankRecorder {
 public:
  /// Collective. Errors: usage (no memory), the ops'.
  RankRecorder(cli::GpuRank& gpu, const cli::Job& job, std::int64_t m);
  /// Collective.
  RankRow run();

 private:
  Recording record(const std::string& plan, const cli::GpuCall& call);
  Recording product(const plan::GemmPlan& plan);
  /// The fastest own product.
  plan::GemmPlan best_product();
  void multiply(const plan::GemmPlan& plan, int turn);
  Plan fused_plan();
  /// Of the call's clock: the same moment on every rank.
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
