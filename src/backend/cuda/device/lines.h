// SPDX-License-Identifier: Apache-2.0
// Verbs for 16-byte units without separate flags. The call's number is stored with every four
// bytes. A unit takes two lines. In memory, the first lines of 32 units precede their second lines.
#pragma once
#include "backend/cuda/device/proxy.h"
#include "comm/cuda_pairs.h"

namespace tilelace::cuda {

/// Two words of 64 bits. Each has four bytes of data and the number of the call.
struct alignas(16) Line {
  std::uint64_t words[2];
};

constexpr int kLinesOfUnit = 2;

/// A unit's first line is at first_line(unit), and its second line lies kSecondLine lines later.
constexpr int kSecondLine = 32;
TILELACE_DEVICE std::int64_t first_line(std::int64_t unit) {
  return (unit & ~std::int64_t{31}) * kLinesOfUnit + (unit & 31);
}

/// Stores a unit at a peer or the own rank. Called by: one thread, the unit's only writer in this
/// call. A reader sees each word either old or new; no other order is needed. Never blocks.
TILELACE_DEVICE void put_unit(Line* place, std::int64_t unit, const uint4& v, std::uint32_t epoch) {
  const std::uint64_t number = static_cast<std::uint64_t>(epoch) << 32;
  Line* const line = place + first_line(unit);
  // relaxed: every word has the call's number
  comm::CudaPairs::store(line->words, number | v.x, number | v.y);
  // relaxed: every word has the call's number
  comm::CudaPairs::store(line[kSecondLine].words, number | v.z, number | v.w);
}

/// Whether the unit in this rank's memory is of this call; if so, `v` is its data. Called by: any
/// thread. Only the unit itself is then visible, not what its writer did before.
TILELACE_DEVICE bool look_at_unit(const Line* place, std::int64_t unit, std::uint32_t epoch,
                                  uint4& v) {
  std::uint64_t w[4];
  const Line* const line = place + first_line(unit);
  comm::CudaPairs::load(line->words, w[0], w[1]);              // relaxed: each word has a number
  comm::CudaPairs::load(line[kSecondLine].words, w[2], w[3]);  // relaxed: each word has a number
  v = {static_cast<std::uint32_t>(w[0]), static_cast<std::uint32_t>(w[1]),
       static_cast<std::uint32_t>(w[2]), static_cast<std::uint32_t>(w[3])};
  return w[0] >> 32 == epoch && w[1] >> 32 == epoch && w[2] >> 32 == epoch && w[3] >> 32 == epoch;
}

TILELACE_DEVICE uint4 either(bool first, const uint4& a, const uint4& b) {
  return {first ? a.x : b.x, first ? a.y : b.y, first ? a.z : b.z, first ? a.w : b.w};
}

}  // namespace tilelace::cuda
