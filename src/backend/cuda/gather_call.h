// SPDX-License-Identifier: Apache-2.0
// One call of ag_gemm, as the parts of it that are enqueued see it; and its sends.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cuda/ag_gemm.h"
#include "backend/cuda/copy_engine.h"
#include "schedule/ag_gemm.h"

namespace tilelace::cuda {

/// What of a call does not depend on the weight.
struct GatherCall {
  const Problem& problem;
  const plan::AgGemmPlan& plan;
  const AgGemmTensors& tensors;
  std::vector<schedule::Index> borders;
  schedule::AgGemm schedule;
  unsigned slot = 0;
  std::uint32_t hash = 0;

  [[nodiscard]] schedule::Index row_bytes() const {
    return problem.k * static_cast<schedule::Index>(size_of(problem.dtype));
  }
  /// Whether copy engines move the rows, on a stream of their own.
  [[nodiscard]] bool copied() const { return plan.transport != Transport::store; }
  /// Whether a push kernel comes before the product.
  [[nodiscard]] bool pushed() const {
    return !copied() && schedule.chunks(schedule.rank).count() > 0;
  }
  /// Whether the rows are wanted and no product.
  [[nodiscard]] bool alone() const { return tensors.outs.empty(); }
  /// Whether a kernel waits for all rows, before the product if there is one.
  [[nodiscard]] bool awaits() const { return plan.path == Path::unfused || alone(); }
};

/// Whoever moves this rank's rows; a copy stream that was forked is to be joined. Error: system.
void enqueue_sends(const RankCalls&, CopyEngine&, const GatherCall&, cudaStream_t);

}  // namespace tilelace::cuda
