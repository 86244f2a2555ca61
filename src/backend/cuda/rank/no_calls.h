// SPDX-License-Identifier: Apache-2.0
// Hashes in headers that stand for something else than a call of an op.
#pragma once
#include <cstdint>

namespace tilelace::cuda {

inline constexpr std::uint32_t kAlignHash = 0xa119e0ddU;
/// A call that the rank refused, of any op.
inline constexpr std::uint32_t kRefusalHash = 0x4ef05a1dU;
inline constexpr std::uint32_t kPreparationHash = 0x94e9a4edU;
/// A mixture of experts whose ids name an expert that does not exist: what a rank tells its peers,
/// and (kOwnWrongIdsHash) what it expects of them in place of its call.
inline constexpr std::uint32_t kWrongIdsHash = 0x71de5b0cU;
inline constexpr std::uint32_t kOwnWrongIdsHash = kWrongIdsHash + 1;

}  // namespace tilelace::cuda
