// SPDX-License-Identifier: Apache-2.0
// Small kernels of ag_gemm: the sends of transport `store`, and the wait of a call without rows.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"
#include "schedule/gather_order.h"

namespace tilelace::cuda {

struct GatherPush {
  schedule::AgGemm schedule;  ///< its workers are the CTAs; borders are those below
  schedule::Index borders[schedule::kMaxSections + 1] = {};
  bool stage = false;  ///< own rows go into the own slot, too
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::size_t flags = 0, rows = 0;  ///< offsets of the call's slot
  std::int64_t row_bytes = 0;       ///< rows lie one after the other
  const std::byte* input = nullptr;
  const comm::Flag* epoch = nullptr;
};

/// Sends this rank's rows to every peer. Runs while the kernel after it begins; it may be captured.
[[nodiscard]] cudaError_t enqueue_push(const GatherPush&, cudaStream_t);

/// Waits for the headers of all peers, and does nothing else.
struct AdmitOnly {
  const comm::Header* headers = nullptr;
  const comm::Flag* epoch = nullptr;
  int rank = 0, ranks = 1;
  std::uint32_t hash = 0;
  WaitContext wait;
};
[[nodiscard]] cudaError_t enqueue_admit(const AdmitOnly&, cudaStream_t);

/// Loads both, so that a later launch does not.
[[nodiscard]] cudaError_t load_gather_push();

}  // namespace tilelace::cuda
