// SPDX-License-Identifier: Apache-2.0
// Host side of the GEMM: memory for partials, tensor maps and launches. Launches allocate nothing.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "backend/cuda/kernels/gemm_kernels.h"
#include "backend/cuda/kernels/ops/gemm_alone.h"
#include "comm/cuda/host_memory.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::cuda {

/// Memory for partials and flags of GEMMs whose workers share tiles. For one stream at a time.
class GemmWorkspace {
 public:
  /// Allocates on the current device, which must have this architecture. Error: system.
  explicit GemmWorkspace(int architecture = 0);
  GemmWorkspace(const GemmWorkspace&) = delete;
  GemmWorkspace& operator=(const GemmWorkspace&) = delete;
  ~GemmWorkspace();
  [[nodiscard]] const GemmScratch& scratch() const { return scratch_; }
  /// Bytes of scratch().partials.
  [[nodiscard]] std::size_t partial_bytes() const { return partial_bytes_; }
  /// Enqueues a check of whether a wait in a GEMM has timed out. Asynchronous. Error: system.
  void look(cudaStream_t);
  /// Whether a check that has run found a timeout. If so, clears the flags, which synchronises the
  /// device; otherwise waits for nothing. Error: system.
  bool failed();

 private:
  void clear();
  void* memory_ = nullptr;
  comm::HostMemory seen_;  // the AbortWord that look() copied
  std::size_t partial_bytes_ = 0, state_bytes_ = 0;
  GemmScratch scratch_{};
};

/// Device pointers, aligned to 16 bytes, with contiguous rows. `n` is the problem's out_n().
struct GemmTensors {
  const void* a = nullptr;                   ///< [m, k]
  const void* weight = nullptr;              ///< [n, k]; gated: the gate's weight
  const void* bias = nullptr;                ///< [n] or null
  void* out = nullptr;                       ///< [m, n]
  Activation activation = Activation::none;  ///< none if gated
  const void* up = nullptr;                  ///< gated: the up weight, [n, k]
  const void* up_bias = nullptr;             ///< gated: the up bias, [n] or null
  bool weights_wait = false;                 ///< the previous kernel may write weights
};

/// The compiled kernels of a plan's tile. Error: usage (this build has none).
const GemmKernel& kernel_of(const plan::GemmPlan&, DType);

/// Whether this build has kernels for the plan's tile (TILELACE_TILES limits the tiles of a build).
bool has_kernel(const plan::GemmPlan&, DType);

/// Loads every kernel of an architecture and sets the kernels' limits of shared memory, so that
/// launches do not have to. Error: system (also if a tile has no kernel).
void load_gemm_kernels(int architecture = 0);

/// Launch parameters of a kernel.
struct GemmGrid {
  int ctas = 0;
  int cluster = 1;  ///< CTAs per cluster; also 2 for one-CTA tiles that the plan launches in pairs
};

/// A GEMM that is ready to launch.
class GemmCall {
 public:
  /// Errors: usage (misaligned pointer, shape, tile), system.
  GemmCall(const plan::GemmPlan&, const plan::GemmProblem&, const GemmTensors&, const GemmScratch&);
  /// Asynchronous; may be captured. If the GEMM starts early and `weights_wait` is false, the
  /// previous kernel in the stream must not write the weight. Error: system.
  void launch(cudaStream_t) const;

 private:
  const GemmKernel* kernel_;
  const void* function_;
  GemmGatedParams params_;  ///< only the base GemmParams is used unless the GEMM is gated
  GemmGrid grid_;
  bool early_;
};

}  // namespace tilelace::cuda
