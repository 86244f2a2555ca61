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
#include "backend/cuda/op_call.h"
#include "backend/cuda/rank_calls.h"

namespace tilelace::cuda {

struct RankOps {
  /// Staging for calls of every problem of the list, up to its m, on any path. Collective. `group`
  /// must outlive it. Errors: usage, system, peer, timeout.
  RankOps(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s,
          const RankShare& share = {});
  /// For calls that take no more. Collective, likewise.
  RankOps(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
          const RankShare& share);

  /// Of a slot, by calls of these problems among so many ranks. Errors: usage.
  static SlotNeeds needs_of(const std::vector<Problem>& problems, int ranks,
                            const RankShare& share);

  /// Enqueues a call with a plan of the problem's: the way that it carries. May be captured; graphs
  /// and eager calls come in any order. Errors: usage, system, peer, timeout (NCCL's).
  void run(const Problem&, const Plan&, const CallTensors&);

  RankCalls calls;
  AgGemm ag_gemm;
  GemmRs gemm_rs;          ///< fused
  GemmAr gemm_ar;          ///< fused
  GemmReduce gemm_reduce;  ///< gemm_rs and gemm_ar, unfused
  GemmHand gemm_hand;      ///< gemm_rs in the ways that others take
  GemmSums gemm_sums;      ///< gemm_ar whose ranks keep their partials

 private:
  void enqueue(const OpCall& c, const plan::AgGemmPlan& way) { ag_gemm.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmRsPlan& way) { gemm_rs.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmArPlan& way) { gemm_ar.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmReducePlan& way) { gemm_reduce.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmHandPlan& way) { gemm_hand.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmSumsPlan& way) { gemm_sums.run(c, way); }
};

}  // namespace tilelace::cuda
