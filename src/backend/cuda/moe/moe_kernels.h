// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of mixtures of experts, except grouped_gemm's. Checks no arguments.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/moe/moe_gpu.h"

namespace tilelace::cuda {

struct RowsParams {
  const std::int32_t* row_of;
  std::int32_t* source_of;  ///< written by enqueue_permute
  const uint4* from;
  const float* weights;  ///< [tokens, top_k] or null
  const uint4* add;      ///< null: nothing is added
  std::int64_t add_first, add_rows;
  uint4* to;
  std::int64_t tokens;
  std::int32_t top_k;
  std::int32_t units;  ///< units of 16 bytes per row
};

[[nodiscard]] cudaError_t enqueue_map(const MakeMap&, cudaStream_t);
/// The DType must be one that GPU ranks support.
[[nodiscard]] cudaError_t enqueue_permute(const RowsParams&, DType, int multiprocessors,
                                          cudaStream_t);
[[nodiscard]] cudaError_t enqueue_sum_slots(const RowsParams&, DType, int multiprocessors,
                                            cudaStream_t);
void load_map();
[[nodiscard]] cudaError_t load_rows();

/// Number of multiprocessors of the current device.
int multiprocessors_here();
/// Allows a kernel this much shared memory and loads it, once per thread and device. Error: system.
void load_with_shared(const void* kernel, int bytes);

}  // namespace tilelace::cuda
