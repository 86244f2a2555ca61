// SPDX-License-Identifier: Apache-2.0
// The sum over all ranks' partials, which are pushed, in one kernel (schedule/push_rows.h).
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"
#include "backend/cuda/device/trace.h"
#include "schedule/push_rows.h"
#include "tilelace/choices.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

struct PushSum {
  schedule::PushRows schedule;      ///< its workers are the CTAs
  CallParams call;                  ///< of the only kernel that knows of the call
  std::size_t terms = 0;            ///< offset: what peers push, a place each
  std::size_t term_pitch = 0;       ///< between places
  const std::byte* own = nullptr;   ///< this rank's partial [m, n]: in its slot, or the caller's
  const std::byte* bias = nullptr;  ///< [n] or null; added once, to the sum
  std::byte* out = nullptr;         ///< [rows that this rank gets, n]
  std::int64_t out_begin = 0;       ///< unit of [m, n] that is the first of `out`
  std::byte* sums = nullptr;        ///< shared: where rank 0 takes them, [m, n]
  std::size_t sums_stride = 0;      ///< to the next rank's
  std::int32_t row_units = 1;
  DType dtype{};  ///< one that is on GPUs
  Activation activation = Activation::none;
  const std::byte* residual = nullptr;  ///< like `out`, or null; added once, to the sum
  TILELACE_TRACE_SINK
};

/// Enters the call, pushes, adds, counts the call. Start::early: right behind the kernel that
/// writes the partial, under its end. May be captured.
[[nodiscard]] cudaError_t enqueue_push_sum(const PushSum&, Start, cudaStream_t);

/// Loads it, so that a later launch does not.
[[nodiscard]] cudaError_t load_push_rows();

}  // namespace tilelace::cuda
