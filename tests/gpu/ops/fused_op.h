// SPDX-License-Identifier: Apache-2.0
// The fused ops behind one interface: what runs many calls of them need not know which.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/ag_gemm.h"
#include "backend/cuda/gemm_rs.h"
#include "ops/op_plan.h"

namespace tilelace::gpu_test {

/// Of any of them; an op that sums has one weight, at most one bias, and one out.
using OpTensors = cuda::AgGemmTensors;

/// One rank's calls of one op on one communicator.
class FusedOp {
 public:
  FusedOp() = default;
  FusedOp(const FusedOp&) = delete;
  FusedOp& operator=(const FusedOp&) = delete;
  virtual ~FusedOp() = default;
  /// Errors, and what a graph may hold: as the op's own run. The plan is one of this op's.
  virtual void run(const Problem& problem, const OpPlan& plan, const OpTensors& tensors,
                   cudaStream_t stream) = 0;
  virtual void finish(cudaStream_t stream, double timeout_s) = 0;
};

/// Collective: staging for these problems, which are all of one op, at least one. Errors: the op's.
std::unique_ptr<FusedOp> make_op(comm::Group& group, int device,
                                 const std::vector<Problem>& problems, double timeout_s);

}  // namespace tilelace::gpu_test
