// SPDX-License-Identifier: Apache-2.0
// The arguments of functions that enqueue a call of an op. Tensors are those of the public call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/rank/reachable_tensor.h"

namespace tilelace::cuda {

/// Tensors of a call. Without weights there is no GEMM, only a gather or a sum of given partials.
struct CallTensors : Operands {
  bool weights_wait = false;       ///< the previous kernel may write the weights
  ReachableTensor reachable = {};  ///< gemm_ar: where peers can reach `out`
};

struct OpCall {
  const Problem& problem;
  const Plan& plan;
  const CallTensors& tensors;
  std::uint32_t hash = 0;  ///< hash of all that ranks must agree on
  bool direct = false;     ///< results are stored directly in tensors that peers can reach

  [[nodiscard]] cudaStream_t stream() const { return static_cast<cudaStream_t>(tensors.stream); }
  [[nodiscard]] bool multiplies() const { return !tensors.weights.empty(); }
  /// This function and the next two are for ops with one weight and one result.
  [[nodiscard]] const void* weight() const {
    return multiplies() ? tensors.weights.front().data : nullptr;
  }
  [[nodiscard]] const void* bias() const {
    return tensors.bias.empty() ? nullptr : tensors.bias.front().data;
  }
  [[nodiscard]] void* out() const { return tensors.out.front().data; }
  /// Tensors of the GEMM alone, for an op with one weight; the GEMM's result goes to `to`.
  [[nodiscard]] GemmTensors product_into(void* to) const {
    return {.a = tensors.input.data,
            .weight = weight(),
            .out = to,
            .weights_wait = tensors.weights_wait};
  }
};

}  // namespace tilelace::cuda
