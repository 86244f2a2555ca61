// SPDX-License-Identifier: Apache-2.0
// Plain data: read by nvcc and by the host compiler.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tilelace::cuda {

/// The step of a WaitPlace (device/record.h) for a wait on a count of all ranks: it is not known
/// which rank is missing.
inline constexpr std::int32_t kEveryRank = -1;

/// Symmetric memory with its multicast mapping.
struct SumsPlace {
  std::byte* base = nullptr;       ///< rank r's part at base + r * stride
  std::size_t stride = 0;          ///< between ranks
  std::byte* multicast = nullptr;  ///< every rank's part at once; null: not mapped
};

}  // namespace tilelace::cuda
