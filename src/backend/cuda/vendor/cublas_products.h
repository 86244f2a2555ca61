// SPDX-License-Identifier: Apache-2.0
// GEMMs by cuBLASLt in one rank's calls. The algorithms for a problem are looked up when it is
// first used, and kept for the problems that were used last.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <list>

#include "backend/cuda/vendor/cublas.h"

namespace tilelace::cuda {

class CublasProducts {
 public:
  /// `room` is the workspace of all products, so only one product may run at a time.
  explicit CublasProducts(CublasRoom room) : room_(room) {}

  /// Enqueues out = a * weight^T with the algorithm that cuBLASLt proposes as number `number` (from
  /// 1), or with the last one if there are fewer. Allocates nothing on the device; may be captured.
  /// Errors: system.
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
  std::list<Known> known_;  // the most recently used comes first
};

}  // namespace tilelace::cuda
