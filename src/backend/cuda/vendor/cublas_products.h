// SPDX-License-Identifier: Apache-2.0
// The products that one rank's calls have cuBLASLt make: each problem's algorithms are looked up
// once.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <list>

#include "backend/cuda/vendor/cublas.h"

namespace tilelace::cuda {

class CublasProducts {
 public:
  /// `room` is used by the products that run, one at a time.
  explicit CublasProducts(CublasRoom room) : room_(room) {}

  /// Enqueues out = a * weight^T by the N-th algorithm that cuBLASLt proposes for the problem, or
  /// by the last: `number` counts from 1. Allocates nothing on the device; may be captured. Errors:
  /// system.
  void launch(const plan::GemmProblem&, const GemmTensors&, int number, cudaStream_t);

 private:
  struct Known {
    Known(const plan::GemmProblem&, std::size_t alignment, CublasRoom);
    plan::GemmProblem problem;
    std::size_t alignment;
    CublasGemm product;
  };
  const CublasGemm& product_of(const plan::GemmProblem&, std::size_t alignment);

  CublasRoom room_;
  std::list<Known> known_;  // the last one used comes first
};

}  // namespace tilelace::cuda
