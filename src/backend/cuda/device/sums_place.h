// SPDX-License-Identifier: Apache-2.0
// Where sums over all ranks are made. Plain data that nvcc and the host compiler both read.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tilelace::cuda {

/// The value of WaitPlace::step (device/record.h) in waits for a count to which all ranks add. The
/// count does not tell which rank is missing.
inline constexpr std::int32_t kEveryRank = -1;

/// Symmetric memory with its multicast mapping.
struct SumsPlace {
  std::byte* base = nullptr;       ///< rank r's part is at base + r * stride
  std::size_t stride = 0;          ///< bytes from one rank's part to the next
  std::byte* multicast = nullptr;  ///< address of all ranks' parts; null: not mapped
};

}  // namespace tilelace::cuda
