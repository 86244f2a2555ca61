// SPDX-License-Identifier: Apache-2.0
// Entering a call: a kernel of one thread advances the epoch and tells the peers.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "comm/signal.h"

namespace tilelace::cuda {

struct Advance {
  comm::Flag* epoch = nullptr;  ///< device memory of the own rank
  /// Header of rank `from` at rank `to`: base + to * stride + headers + (slot * ranks + from) * 8;
  /// base null: no headers are sent.
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::size_t headers = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::uint32_t hash = 0;  ///< of what must agree, the same on every rank
};

/// Enqueues it (also into a capture). Everything before it in `stream` is part of the calls before:
/// the headers tell the peers that this rank is done with them.
[[nodiscard]] cudaError_t enqueue_advance(const Advance& advance, cudaStream_t stream);

}  // namespace tilelace::cuda
