// SPDX-License-Identifier: Apache-2.0
// One call of an op, for the functions that enqueue it. Tensors are those of the public call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/rank/reachable_out.h"

namespace tilelace::cuda {

/// Without weights there is no GEMM: rows are gathered, or given partials are summed.
struct CallTensors : Operands {
  bool weights_wait = false;    ///< weights may be written just before the call
  ReachableOut reachable = {};  ///< gemm_ar: the out, where peers reach it
};

struct OpCall {
  const Problem& problem;
  const Plan& plan;
  const CallTensors& tensors;
  std::uint32_t hash = 0;  ///< of everything that ranks must agree on
  bool direct = false;     ///< results go directly to memory that peers can reach

  [[nodiscard]] cudaStream_t stream() const { return static_cast<cudaStream_t>(tensors.stream); }
  [[nodiscard]] bool multiplies() const { return !tensors.weights.empty(); }
  /// For an op with one weight and one out.
  [[nodiscard]] const void* weight() const {
    return multiplies() ? tensors.weights.front().data : nullptr;
  }
  [[nodiscard]] const void* bias() const {
    return tensors.bias.empty() ? nullptr : tensors.bias.front().data;
  }
  [[nodiscard]] void* out() const { return tensors.out.front().data; }
  /// The GEMM alone of an op with one weight, into `to`.
  [[nodiscard]] GemmTensors product_into(void* to) const {
    return {.a = tensors.input.data,
            .weight = weight(),
            .out = to,
            .weights_wait = tensors.weights_wait};
  }
};

}  // namespace tilelace::cuda
