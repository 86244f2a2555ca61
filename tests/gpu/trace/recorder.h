// SPDX-License-Identifier: Apache-2.0
// A rank's side of a row: the fused op and products alone, recorded in graphs under load.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "account.h"
#include "baselines/fused.h"
#include "baselines/gemms.h"
#include "clocks.h"

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
  struct Options {
    Fused::Options fused;
    Gemms::Options gemms;
    int rounds = 5;
    Lengths lengths;
  };
  /// Collective. Errors: usage (no memory), the ops'.
  RankRecorder(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
               const Options& options);
  /// Collective; all ranks come with the same row.
  RankRow run(const Row& row);

 private:
  using Launch = std::function<void(int)>;
  Recording record(const std::string& plan, const Launch& launch,
                   const std::function<void()>& finish);
  Recording product(const plan::GemmPlan& plan, const plan::GemmProblem& p);
  /// Of the call's clock: the same moment on every rank.
  std::uint64_t origin_ns(const std::vector<cuda::TracedLaunch>& launches, double offset_ns) const;

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  Options options_;
  Operands operands_;
  Timer timer_;
  Gemms gemms_;
  Fused fused_;
  cuda::GemmWorkspace workspace_;
  ClockOffset clock_;
};

}  // namespace tilelace::gpu_test
