// SPDX-License-Identifier: Apache-2.0
// Hashes that headers carry in place of the hash of an op's call.
#pragma once
#include <cstdint>

namespace tilelace::cuda {

inline constexpr std::uint32_t kAlignHash = 0xa119e0ddU;
/// Announces that the rank refused its call. The hash is the same for all ops.
inline constexpr std::uint32_t kRefusalHash = 0x4ef05a1dU;
inline constexpr std::uint32_t kPreparationHash = 0x94e9a4edU;
/// If some id in a mixture of experts names no expert, the rank sends kWrongIdsHash to its peers
/// and expects kOwnWrongIdsHash, which no peer sends.
inline constexpr std::uint32_t kWrongIdsHash = 0x71de5b0cU;
inline constexpr std::uint32_t kOwnWrongIdsHash = kWrongIdsHash + 1;

}  // namespace tilelace::cuda
