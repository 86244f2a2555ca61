// SPDX-License-Identifier: Apache-2.0
// A kernel that sums the partials of all ranks (schedule/reduce_rows.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"
#include "schedule/reduce_rows.h"
#include "tilelace/choices.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

struct SumRows {
  schedule::ReduceRows schedule;    ///< each worker is a CTA
  CallParams call;                  ///< only this kernel enters and counts the call
  std::size_t partials = 0;         ///< offset of the partial [m, n] in each rank's memory
  const std::byte* own = nullptr;   ///< this rank's partial [m, n], in its slot or at the caller
  const std::byte* bias = nullptr;  ///< [n] or null; added once, to the sum
  std::byte* out = nullptr;         ///< [rows of this rank's result, n]
  std::int64_t out_begin = 0;       ///< offset of `out` in [m, n], in units of 16 bytes
  std::int32_t row_units = 1;
  DType dtype{};  ///< must be a type that GPUs support
  Activation activation = Activation::none;
  const std::byte* residual = nullptr;  ///< null, or shaped like `out`; added once, to the sum
};

/// Enters the call, waits until all ranks have entered it, adds partials and counts the call. With
/// Start::early the kernel may overlap the kernel that writes the partial. May be captured.
[[nodiscard]] cudaError_t enqueue_sum(const SumRows&, Start, cudaStream_t);

/// Loads the kernel of enqueue_sum now, so that its first launch does not have to.
[[nodiscard]] cudaError_t load_sum_rows();

}  // namespace tilelace::cuda
