// SPDX-License-Identifier: Apache-2.0
// Launches fused gemm_rs and gemm_ar, GEMMs that send partials to the ranks that own the rows.
#pragma once
#include "backend/cuda/gemm/gemm_launch.h"
#include "backend/cuda/kernels/partials.h"
#include "backend/cuda/rank/op_call.h"
#include "backend/cuda/rank/rank_calls.h"
#include "plan/base/schedules.h"

namespace tilelace::cuda {

/// A kernel of one tile shape that sends partial sums. `pairs`: its clusters span two shards.
struct ReduceKernel {
  const GemmKernel& of;
  bool pairs = false;
};

/// Flags and bytes that this number of partials needs in a slot.
SlotNeeds partial_needs(int partials, const ReduceKernel& kernel);

/// Fills in all parameters except the order, the outputs, the own rows, and those that set_slot
/// fills in. Errors: usage, system.
void fill_reduce(PartialParams& params, const RankCalls& calls, const OpCall& call,
                 const plan::GemmPlan& gemm, const ReduceKernel& kernel);

/// Fills in the parameters that depend on the call's slot.
void set_slot(PartialParams& params, const RankCalls& calls, unsigned slot);

}  // namespace tilelace::cuda
