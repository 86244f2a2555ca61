// SPDX-License-Identifier: Apache-2.0
// The ops by the library, fused or not: their plans, the fastest of them found under load.
#pragma once
#include <memory>
#include <vector>

#include "operands.h"
#include "ops/op_run.h"
#include "timer.h"

namespace tilelace::gpu_test {

/// Plans worth a careful look: a graph that is ready, and its name where another is the fastest.
struct FusedChoice {
  std::string role;  ///< "fused_default", "fused push whole", "unfused pull"
  OpPlan plan;
  Variant variant;
};

class Fused {
 public:
  struct Options {
    bool all = false;    ///< prints every plan that was tried
    int candidates = 6;  ///< that are tried, best prediction first, beside the best of every kind
    bool kinds = false;  ///< the best of every kind is kept, too
    bool nccl = false;   ///< ag_gemm: its transport nccl is a kind
    bool hands = false;  ///< gemm_rs: plans whose partials are handed to owners are kinds
    std::string only;    ///< of the plans, those whose description has this
    Lengths lengths;
  };
  /// Collective: staging for these rows. Errors: the ops'.
  Fused(Rank& rank, Timer& timer, const Operands& operands, const std::vector<Row>& rows,
        const Options& options);

  /// Collective, with the row's operands in use. First the fastest, then the default plan, then the
  /// fastest of other kinds (of gemm_rs and gemm_ar always, else if asked for); none twice.
  std::vector<FusedChoice> choose(const Row& row);
  /// Where the i-th call's results are.
  [[nodiscard]] OpTensors tensors(const Row& row, int i) const;

 private:
  [[nodiscard]] std::vector<OpPlan> candidates(const Row& row) const;
  Variant variant(const Row& row, const OpPlan& plan);

  Rank& rank_;
  Timer& timer_;
  const Operands& operands_;
  Options options_;
  std::unique_ptr<ReachableMemory> outs_;  ///< of gemm_ar: peers write them
  std::unique_ptr<cuda::RankOps> ops_;
};

}  // namespace tilelace::gpu_test
