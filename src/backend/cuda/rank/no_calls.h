// SPDX-License-Identifier: Apache-2.0
// Hashes in headers that do not stand for a call of an op.
#pragma once
#include <cstdint>

namespace tilelace::cuda {

inline constexpr std::uint32_t kAlignHash = 0xa119e0ddU;
/// Stands for a call that the rank refused, whatever its op.
inline constexpr std::uint32_t kRefusalHash = 0x4ef05a1dU;
inline constexpr std::uint32_t kPreparationHash = 0x94e9a4edU;
/// For a mixture of experts whose ids name no expert: the hash that a rank sends to its peers, and
/// (kOwnWrongIdsHash) the hash that it expects, which no peer sends.
inline constexpr std::uint32_t kWrongIdsHash = 0x71de5b0cU;
inline constexpr std::uint32_t kOwnWrongIdsHash = kWrongIdsHash + 1;

}  // namespace tilelace::cuda
