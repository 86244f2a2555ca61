// SPDX-License-Identifier: Apache-2.0
// What ranks agree on beside calls of ops: hashes that stand in a header in place of a call's.
#pragma once
#include <cstdint>

namespace tilelace::cuda {

inline constexpr std::uint32_t kAlignHash = 0xa119e0ddU;
/// Of a call that the rank refused, whatever its op.
inline constexpr std::uint32_t kRefusalHash = 0x4ef05a1dU;
inline constexpr std::uint32_t kPreparationHash = 0x94e9a4edU;

}  // namespace tilelace::cuda
