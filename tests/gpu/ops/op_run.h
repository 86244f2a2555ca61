// SPDX-License-Identifier: Apache-2.0
// Calls of any op with any of its plans: what runs many of them need not know which.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/rank_ops.h"
#include "ops/op_plan.h"

namespace tilelace::gpu_test {

/// Of any op; one that sums has one weight, at most one bias, and one out.
struct OpTensors : cuda::AgGemmTensors {
  cuda::ReachableOut reachable;    ///< gemm_ar: the out, where peers reach it
  const void* residual = nullptr;  ///< of a sum
};

/// Memory for outs that peers reach. Collective. Errors: comm::allocate_device's.
class ReachableMemory {
 public:
  ReachableMemory(comm::Group& group, int device, std::size_t bytes, double timeout_s)
      : memory_(comm::allocate_device(group, device, bytes, timeout_s)) {}
  [[nodiscard]] std::byte* data() const { return memory_->local(); }
  [[nodiscard]] cuda::ReachableOut at(const void* out) const {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(out) - data());
    return {memory_->base(), memory_->stride(), offset, 0};
  }

 private:
  std::shared_ptr<comm::DeviceMemory> memory_;
};

/// Collective: staging for these problems, at least one. Errors: RankOps'.
std::unique_ptr<cuda::RankOps> make_ops(comm::Group& group, int device,
                                        const std::vector<Problem>& problems, double timeout_s,
                                        const cuda::RankShare& share = {});

/// Enqueues a call. Errors, and what a graph may hold: as the op's own run. The plan is one of this
/// op's.
void run_op(cuda::RankOps& ops, const Problem& problem, const OpPlan& plan,
            const OpTensors& tensors, cudaStream_t stream);

}  // namespace tilelace::gpu_test
