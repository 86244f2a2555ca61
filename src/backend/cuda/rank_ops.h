// SPDX-License-Identifier: Apache-2.0
// Everything that one rank can call on one communicator: all ops share memory, slots and the count
// of calls, so that they may follow each other in any order, also in one graph.
#pragma once
#include <vector>

#include "backend/cuda/gather/ag_gemm_calls.h"
#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "backend/cuda/reduce/gemm_ar_calls.h"
#include "backend/cuda/reduce/gemm_rs_calls.h"
#include "backend/cuda/reduce/handed_partials.h"
#include "backend/cuda/reduce/kept_partials.h"
#include "backend/cuda/reduce/unfused_sums.h"

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

 private:
  void enqueue(const OpCall& c, const plan::AgGemmWay& way) { gather_.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmRsWay& way) { scatter_.run(c, way); }
  void enqueue(const OpCall& c, const plan::GemmArWay& way) { share_.run(c, way); }
  void enqueue(const OpCall& c, const plan::KeptPartialsWay& way) { kept_.run(c, way); }
  void enqueue(const OpCall& c, const plan::UnfusedSumWay& way) { behind_.run(c, way); }
  void enqueue(const OpCall& c, const plan::HandedPartialsWay& way) { handed_.run(c, way); }

  AgGemmCalls gather_;
  GemmRsCalls scatter_;    ///< fused
  GemmArCalls share_;      ///< fused
  KeptPartials kept_;      ///< fused, partials stay with the ranks
  UnfusedSums behind_;     ///< sums behind the product
  HandedPartials handed_;  ///< partials are handed to owners, in the ways that others take
};

}  // namespace tilelace::cuda
