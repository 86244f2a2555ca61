// SPDX-License-Identifier: Apache-2.0
// What the launches of fused gemm_rs and gemm_ar share: a product whose partial sums go to owners.
#pragma once
#include "backend/cuda/gemm_launch.h"
#include "backend/cuda/rank_calls.h"
#include "plan/schedules.h"

namespace tilelace::cuda {

/// Device pointers, 16-byte aligned, rows one after the other.
struct ReduceOperands {
  const void* x = nullptr;       ///< [m, k]
  const void* weight = nullptr;  ///< [n, k]
  const void* bias = nullptr;    ///< [n] or null; added once, to the sum
  void* out = nullptr;
};

/// The choices that must agree, as the agreement hash knows them: the shape of partials depends on
/// the tile, so all ranks take the same.
Plan agreed_reduce_plan(Op op, const GemmKernel& kernel, int blocks);

/// Flags and bytes of a slot that partials take. Error: usage (more than there is).
SlotNeeds partial_needs(const schedule::ReduceOrder& order, const GemmKernel& kernel);

/// Everything but outputs and the slot, which begin_slot sets. Errors: usage, system.
void fill_reduce(ReduceParams& params, const RankCalls& calls, const Problem& problem,
                 const Plan& agreed, const schedule::GemmReduce& schedule,
                 const plan::GemmPlan& gemm, bool together, const ReduceOperands& operands,
                 const GemmKernel& kernel);

/// Where the call's slot is.
void set_slot(ReduceParams& params, const RankCalls& calls, unsigned slot);

}  // namespace tilelace::cuda
