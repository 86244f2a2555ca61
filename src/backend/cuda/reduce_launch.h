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
  const void* residual = nullptr;  ///< like `out`, or null; added once, to the sum
};

/// A compiled tile whose partial sums travel; `pairs`: whose clusters lie across two shards.
struct ReduceKernel {
  const GemmKernel& of;
  bool pairs = false;
};

/// The choices that must agree, as the agreement hash knows them: the shape of partials depends on
/// the tile, so all ranks take the same.
Plan agreed_reduce_plan(const Problem& problem, const ReduceKernel& kernel);

/// Of that plan: what all ranks must agree on.
std::uint32_t reduce_hash(const Problem&, Plan agreed, const ReduceKernel&);

/// Flags and bytes of a slot that so many partials take.
SlotNeeds partial_needs(int partials, const ReduceKernel& kernel);

/// Everything but the order, outputs, own rows and the slot, which set_slot sets. `hash`: what must
/// agree. Errors: usage, system.
void fill_reduce(ReduceCommon& params, const RankCalls& calls, const Problem& problem,
                 std::uint32_t hash, const plan::GemmPlan& gemm, const ReduceOperands& operands,
                 const ReduceKernel& kernel);

/// Where the call's slot is.
void set_slot(ReduceCommon& params, const RankCalls& calls, unsigned slot);

}  // namespace tilelace::cuda
