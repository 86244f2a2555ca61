// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's GEMM, as a baseline and for plans that choose cuBLASLt. libcublasLt is loaded at its
// first use.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "backend/cuda/gemm/gemm_call.h"

namespace tilelace::cuda {

/// Workspace of a GEMM: device memory that it may use while it runs, aligned to 256 bytes.
struct CublasRoom {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

/// If tensors are aligned to this many bytes, cuBLASLt may choose among all its algorithms.
inline constexpr std::size_t kCublasAlignment = 256;

/// The algorithms for one problem, in the order in which cublasLtMatmulAlgoGetHeuristic lists them.
class CublasGemm {
 public:
  /// Finds at most `wanted` algorithms; allocates `workspace` bytes. Errors: system (no library, no
  /// algorithm).
  CublasGemm(const plan::GemmProblem&, int wanted = 16, std::size_t workspace = 64U << 20);
  /// The same with the given workspace, for tensors aligned to `alignment` bytes. Allocates nothing
  /// on the device.
  CublasGemm(const plan::GemmProblem&, int wanted, CublasRoom, std::size_t alignment);
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;
  ~CublasGemm();
  [[nodiscard]] int algorithms() const;
  /// out = a * weight^T; bias and activation are not applied. Asynchronous; may be captured.
  void launch(const GemmTensors&, int algorithm, cudaStream_t) const;
  [[nodiscard]] std::string describe(int algorithm) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Version of libcublasLt; 0 if it cannot be loaded.
std::size_t cublas_version();

}  // namespace tilelace::cuda
