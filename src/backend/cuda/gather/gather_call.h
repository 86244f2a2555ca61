// SPDX-License-Identifier: Apache-2.0
// The argument of functions that enqueue parts of an ag_gemm call, and the function enqueue_sends.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cuda/gather/ag_gemm_calls.h"
#include "backend/cuda/link/copy_engine.h"
#include "backend/cuda/link/nccl_rows.h"
#include "plan/base/problem.h"
#include "plan/collectives/collective.h"
#include "schedule/ag_gemm.h"
#include "tilelace/transport_table.h"

namespace tilelace::cuda {

/// The facts about an ag_gemm call that hold for all of its weights.
struct GatherCall {
  const Problem& problem;
  plan::AgGemmWay plan;
  const CallTensors& tensors;
  std::vector<schedule::Index> borders;
  schedule::AgGemm schedule;
  unsigned slot = 0;
  std::uint32_t hash = 0;
  /// If exchanged(): the exchange that brings the rows.
  plan::CollectiveCall exchange = {};
  plan::CollectivePlan exchange_plan = {};

  [[nodiscard]] schedule::Index row_bytes() const { return plan::input_row_bytes(problem); }
  /// Whether copy engines or NCCL move the rows, on a separate stream.
  [[nodiscard]] bool copied() const { return !row_of(plan.transport).by_workers(); }
  /// Whether an exchange brings all rows, before the GEMM if there is one. If neither copied() nor
  /// exchanged(), the GEMM sends them.
  [[nodiscard]] bool exchanged() const { return !copied() && behind_rows(); }
  /// The bias of the i-th weight, or null.
  [[nodiscard]] const void* bias(std::size_t i) const {
    return tensors.bias.empty() ? nullptr : tensors.bias[i].data;
  }
  /// Whether the call only gathers rows, without a GEMM.
  [[nodiscard]] bool alone() const { return tensors.weights.empty(); }
  /// Whether a GEMM, if there is one, begins when all rows are here.
  [[nodiscard]] bool behind_rows() const { return plan.path == Path::unfused || alone(); }
  /// Whether a separate kernel waits for copied rows.
  [[nodiscard]] bool awaits() const { return copied() && behind_rows(); }
};

/// Sends this rank's rows, unless the GEMM sends them. If copied(), the caller must join the engine
/// later. `nccl`: null unless the transport is nccl. Errors: system, peer, timeout (of NCCL).
void enqueue_sends(const RankCalls&, CopyEngine&, NcclRows* nccl, const GatherCall&, cudaStream_t);

}  // namespace tilelace::cuda
