// SPDX-License-Identifier: Apache-2.0
// Kernels of collectives without a GEMM (schedule/exchange.h). A rank's data for a peer (a parcel)
// goes as chunks with a flag each, as lines (device/lines.h), or directly between tensors.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"
#include "plan/collectives/collective.h"
#include "schedule/exchange.h"
#include "tilelace/choices.h"
#include "tilelace/collectives.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// A parcel in the caller's memory, with any alignment.
struct ParcelAt {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

struct ExchangeParams {
  schedule::RingExchange schedule;                 ///< its workers are CTAs for lines, else warps
  CallParams call;                                 ///< its hash covers what all ranks agree on
  std::uint32_t told[schedule::kMaxGpuRanks];      ///< hash in our header to each peer
  std::uint32_t expected[schedule::kMaxGpuRanks];  ///< hash expected from each peer
  ParcelAt sends[schedule::kMaxGpuRanks];          ///< parcels for all ranks; own entry: kept data
  ParcelAt takes[schedule::kMaxGpuRanks];  ///< parcels from all ranks; own entry: own result
  /// For direct calls. results[r]: the place in rank r's output for this rank's parcel or sums.
  /// inputs[r]: rank r's terms of this rank's sums, in rank r's input.
  std::byte* results[schedule::kMaxGpuRanks];
  std::byte* inputs[schedule::kMaxGpuRanks];
  std::size_t places = 0;  ///< offset of this slot's chunks or lines
  float divisor = 1;       ///< sums are divided by this before rounding
  /// Words that earlier kernels wrote, or null. *word must be equal on all ranks. If *wrong is
  /// not 0, this rank sends the hash `refusal` and expects refusal + 1, which no rank sends.
  const std::int32_t* word = nullptr;
  const std::int32_t* wrong = nullptr;
  std::uint32_t refusal = 0;
  bool same = false;             ///< every peer gets the same parcel
  bool lets_next_begin = false;  ///< the next kernel in the stream may start early
  Item item{};
  Reduction reduction{};
};

/// For sums of a GEMM's partials: the exchange, and what is done to the sums before rounding.
struct ProductSum {
  ExchangeParams exchange;
  const uint4* bias = nullptr;      ///< [row_units] or null; added once
  const uint4* residual = nullptr;  ///< null, or residual from this rank's first sum on; added once
  std::uint32_t row_units = 1;
  std::uint32_t first_column = 0;  ///< column of the first sum, in units of 16 bytes
  Activation activation = Activation::none;
  DType dtype{};  ///< one of the kernels' element types
};

/// Enqueues a kernel that enters the call, exchanges parcels as chunks and, if `call.last`, counts
/// the call. With Start::early the kernel overlaps the end of the previous kernel. May be captured.
[[nodiscard]] cudaError_t enqueue_chunks(const ExchangeParams&, Start, cudaStream_t);
/// The same, but parcels are sent as lines, in one round.
[[nodiscard]] cudaError_t enqueue_lines(const ExchangeParams&, Start, cudaStream_t);
/// The same, but parcels move directly between the ranks' tensors.
[[nodiscard]] cudaError_t enqueue_direct(const ExchangeParams&, Start, cudaStream_t);
/// The same after a GEMM, for sums of the GEMM's partials.
[[nodiscard]] cudaError_t enqueue_chunks(const ProductSum&, Start, cudaStream_t);
[[nodiscard]] cudaError_t enqueue_lines(const ProductSum&, Start, cudaStream_t);

/// Loads the kernels now, so that launches need not load them.
[[nodiscard]] cudaError_t load_chunks();
[[nodiscard]] cudaError_t load_lines();
[[nodiscard]] cudaError_t load_direct();

}  // namespace tilelace::cuda
