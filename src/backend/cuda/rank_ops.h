// SPDX-License-Identifier: Apache-2.0
// Everything that one rank can call on one communicator: all ops share memory, slots and the count
// of calls, so that they may follow each other in any order, also in one graph.
#pragma once
#include <vector>

#include "backend/cuda/ag_gemm.h"
#include "backend/cuda/gemm_ar.h"
#include "backend/cuda/gemm_hand.h"
#include "backend/cuda/gemm_reduce.h"
#include "backend/cuda/gemm_rs.h"
#include "backend/cuda/gemm_sums.h"
#include "backend/cuda/rank_calls.h"
#include "backend/cuda/reachable_out.h"

namespace tilelace::cuda {

/// Of a call of any op; one that sums has one weight, at most one bias, and one out. Without a
/// weight it sums what it is given.
struct OpTensors : AgGemmTensors {
  const void* residual = nullptr;  ///< of a sum: like out, or null
  ReachableOut reachable = {};     ///< gemm_ar: the out, where peers reach it
  bool weights_wait = false;       ///< weights may be written right before the call
};

struct RankOps {
  /// Staging for calls of every problem of the list, up to its m, on any path. Collective. `group`
  /// must outlive it. Errors: usage, system, peer, timeout.
  RankOps(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s,
          const RankShare& share = {});
  /// For calls that take no more. Collective, likewise.
  RankOps(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
          const RankShare& share);

  /// Of a slot, by calls of these problems among so many ranks.
  static SlotNeeds needs_of(const std::vector<Problem>& problems, int ranks,
                            const RankShare& share);

  /// Enqueues a call with a plan of the problem's (plan/cuda.h). Errors, and what a graph may hold:
  /// as the op's own run.
  void run(const Problem&, const Plan&, const OpTensors&, cudaStream_t);

  RankCalls calls;
  AgGemm ag_gemm;
  GemmRs gemm_rs;          ///< fused
  GemmAr gemm_ar;          ///< fused
  GemmReduce gemm_reduce;  ///< gemm_rs and gemm_ar, unfused
  GemmHand gemm_hand;      ///< gemm_rs in the ways that others take
  GemmSums gemm_sums;      ///< gemm_ar whose ranks keep their partials
};

}  // namespace tilelace::cuda
