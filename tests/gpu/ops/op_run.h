// SPDX-License-Identifier: Apache-2.0
// Calls of any op with any of its plans: what runs many of them need not know which.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/rank_ops.h"
#include "ops/op_plan.h"
#include "ops/reachable_memory.h"

namespace tilelace::gpu_test {

using cuda::OpTensors;

/// Collective: staging for these problems, at least one. Errors: RankOps'.
std::unique_ptr<cuda::RankOps> make_ops(comm::Group& group, int device,
                                        const std::vector<Problem>& problems, double timeout_s,
                                        const cuda::RankShare& share = {});

/// Enqueues a call. Errors, and what a graph may hold: as the op's own run. The plan is one of this
/// op's.
void run_op(cuda::RankOps& ops, const Problem& problem, const OpPlan& plan,
            const OpTensors& tensors, cudaStream_t stream);

}  // namespace tilelace::gpu_test
