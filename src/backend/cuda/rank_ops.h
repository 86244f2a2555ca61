// SPDX-License-Identifier: Apache-2.0
// All ops of one rank on one communicator. They share memory, slots and the count of calls, so that
// calls may follow each other in any order, also in one graph.
#pragma once
#include <vector>

#include "backend/cuda/gather/ag_gemm_calls.h"
#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "backend/cuda/reduce/copied_partials.h"
#include "backend/cuda/reduce/gemm_ar_calls.h"
#include "backend/cuda/reduce/gemm_rs_calls.h"
#include "backend/cuda/reduce/kept_partials.h"
#include "backend/cuda/reduce/unfused_sums.h"

namespace tilelace::cuda {

struct RankOps {
  /// Allocates staging for calls of every problem in the list, up to the problem's m, with any
  /// plan. Collective. `group` must outlive this object. Errors: usage, system, peer, timeout.
  RankOps(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s,
          const RankShare& share = {});
  /// Allocates staging for calls that need no more than `needs`. Collective; errors as above.
  RankOps(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
          const RankShare& share);

  /// What calls of these problems need in a slot, for this number of ranks. Errors: usage.
  static SlotNeeds needs_of(const std::vector<Problem>& problems, int ranks,
                            const RankShare& share);

  /// Enqueues a call with one of the problem's plans. May be captured; graphs and eager calls may
  /// come in any order. Errors: usage, system, peer, timeout (NCCL's).
  void run(const Problem&, const Plan&, const CallTensors&);

  RankCalls calls;

 private:
  void enqueue(const OpCall& c, const plan::AgGemmWay& way) { gather_.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmRsWay& way) { scatter_.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmArWay& way) { share_.run(c, way); }
  void enqueue(const OpCall& c, const plan::KeptPartialsWay& way) { kept_.run(c, way); }
  void enqueue(const OpCall& c, const plan::UnfusedSumWay& way) { behind_.run(c, way); }
  void enqueue(const OpCall& c, const plan::CopiedPartialsWay& way) { copied_.run(c, way); }

  AgGemmCalls gather_;
  GemmRsCalls scatter_;    ///< fused gemm_rs
  GemmArCalls share_;      ///< fused gemm_ar
  KeptPartials kept_;      ///< fused gemm_ar whose ranks keep their partials
  UnfusedSums behind_;     ///< gemm_rs and gemm_ar whose sum is a kernel after the GEMM
  CopiedPartials copied_;  ///< gemm_rs whose partials copy engines take to their owners
};

}  // namespace tilelace::cuda
