// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of a call. Plain data that nvcc and the host compiler both read.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"
#include "comm/signal.h"
#include "core/host_device.h"

namespace tilelace::cuda {

/// A rank's count of calls, in device memory. Call c uses slot c mod 2 of symmetric memory.
struct CallCounter {
  comm::Flag done = 0;          ///< number of calls that have ended
  std::uint32_t passed = 0;     ///< how many CTAs of the call's last kernel have called count_call
  comm::Flag next[2] = {0, 1};  ///< each slot's next call number; copy engines copy it to the flags
};

struct CallParams {
  int rank, ranks;
  std::byte* base;  ///< symmetric memory: rank r's part is at base + r * stride
  std::size_t stride;
  std::size_t headers;  ///< offset of the header words: one per rank for slot 0, then for slot 1
  std::size_t flags;    ///< offset of the call's slot, whose first words are flags
  CallCounter* counter;
  std::uint32_t hash;  ///< hash of all that ranks must agree on
  bool first, last;    ///< first: this kernel sends the headers; last: this kernel counts the call
  WaitContext wait;

  /// memory_at(): a rank's part of symmetric memory; flags_at(): the call's flags in that part.
  [[nodiscard]] TILELACE_HD std::byte* memory_at(int of_rank) const {
    return base + static_cast<std::size_t>(of_rank) * stride;
  }
  [[nodiscard]] TILELACE_HD comm::Flag* flags_at(int of_rank) const {
    return reinterpret_cast<comm::Flag*>(memory_at(of_rank) + flags);
  }
};

}  // namespace tilelace::cuda
