// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of a call. Plain data: read by nvcc and by the host compiler.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"
#include "comm/signal.h"
#include "core/host_device.h"

namespace tilelace::cuda {

/// A rank's count of calls, in device memory. Call c uses slot c mod 2.
struct CallCounter {
  comm::Flag done = 0;          ///< number of calls that have ended
  std::uint32_t passed = 0;     ///< CTAs of the call's last kernel that called count_call
  comm::Flag next[2] = {0, 1};  ///< number of each slot's next call; copy engines copy it to flags
};

struct CallParams {
  int rank, ranks;
  std::byte* base;  ///< symmetric memory: rank r's part is at base + r * stride
  std::size_t stride;
  std::size_t headers;  ///< offset of the header words: slot 0's by rank, then slot 1's
  std::size_t flags;    ///< offset of the call's slot, whose first words are flags
  CallCounter* counter;
  std::uint32_t hash;  ///< hash of all that ranks must agree on
  bool first, last;    ///< the call's first kernel sends headers; its last one counts the call
  WaitContext wait;

  /// A rank's part of symmetric memory, and the slot's flags there.
  [[nodiscard]] TILELACE_HD std::byte* memory_at(int of_rank) const {
    return base + static_cast<std::size_t>(of_rank) * stride;
  }
  [[nodiscard]] TILELACE_HD comm::Flag* flags_at(int of_rank) const {
    return reinterpret_cast<comm::Flag*>(memory_at(of_rank) + flags);
  }
};

}  // namespace tilelace::cuda
