// SPDX-License-Identifier: Apache-2.0
// The map of a mixture of experts: which row of a product belongs to which (token, slot). A slot is
// one of the token's top_k choices of an expert.
//
// Rows are ordered by (expert, token, slot), without gaps between experts. So a map depends only on
// the ids: ranks with the same ids and experts have the same map. A map is one buffer of 32-bit
// words, in sections aligned to kMapSection words:
//   begins     [experts here + 1]  first row of each expert of this rank, then the number of rows
//   row_of     [m * top_k]         the row of a (token, slot); -1 if this rank has none
//   source_of  [m * top_k]         token * top_k + slot of a row; -1 beyond the last row
//   wrong      [1]                 0, or 1 + index of the first pair with an invalid id (is_id)
//   hash       [1]                 hash of all ids, to compare routings between ranks
//   weights    [m * top_k]         fp32 bits of the router's weights, which are given with the ids
#pragma once
#include <cstdint>

#include "schedule/index.h"

namespace tilelace::schedule {

/// Words that each section is aligned to.
constexpr Index kMapSection = 32;

/// The sizes of a map and the places of its sections. This rank has the experts [first, first +
/// here) of `experts` in all.
struct MoeMap {
  Index m = 0;
  Index top_k = 1;
  Index experts = 1;
  Index first = 0;
  Index here = 1;

  bool operator==(const MoeMap&) const = default;

  /// Number of (token, slot) pairs. The index of a pair is token * top_k + slot.
  [[nodiscard]] TILELACE_HD constexpr Index pairs() const { return m * top_k; }
  [[nodiscard]] TILELACE_HD static constexpr Index begins() { return 0; }
  [[nodiscard]] TILELACE_HD constexpr Index row_of() const { return aligned(here + 1); }
  [[nodiscard]] TILELACE_HD constexpr Index source_of() const {
    return row_of() + aligned(pairs());
  }
  [[nodiscard]] TILELACE_HD constexpr Index wrong() const { return source_of() + aligned(pairs()); }
  [[nodiscard]] TILELACE_HD constexpr Index hash() const { return wrong() + kMapSection; }
  [[nodiscard]] TILELACE_HD constexpr Index weights() const { return hash() + kMapSection; }
  /// Words of the whole buffer.
  [[nodiscard]] TILELACE_HD constexpr Index words() const { return weights() + aligned(pairs()); }

  /// Whether an id is valid in a routing: an expert, or -1 for no choice.
  [[nodiscard]] TILELACE_HD constexpr bool is_id(Index id) const {
    return id >= -1 && id < experts;
  }
  /// This rank's number for the expert `id`; -1 if `id` is -1, another rank's expert or no expert.
  [[nodiscard]] TILELACE_HD constexpr Index local(Index id) const {
    return id >= first && id < first + here && is_id(id) ? id - first : -1;
  }

 private:
  [[nodiscard]] TILELACE_HD static constexpr Index aligned(Index words) {
    return ceil_div(words, kMapSection) * kMapSection;
  }
};

/// The most (token, slot) pairs. This number plus 1 must fit a signed 32-bit word.
constexpr Index kMaxMapPairs = 0x7ffffffe;

/// What one id adds to the hash. The hash is the sum over all ids modulo 2^32, in any order.
TILELACE_HD constexpr std::uint32_t id_hash(Index pair, Index id) {
  const auto bits = static_cast<std::uint64_t>(id);
  auto x = static_cast<std::uint32_t>(pair) * 0x9E3779B1U;
  x = (x ^ (x >> 15)) * 0x85EBCA77U;
  x ^= static_cast<std::uint32_t>(bits) ^ static_cast<std::uint32_t>(bits >> 32);
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;  // the final mix of MurmurHash3
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  return x ^ (x >> 16);
}

/// Makes the map of the ids [m, top_k], one pair after the other. Every other implementation must
/// give the same words in the sections. The weights are not written.
template <class Id>
TILELACE_HD constexpr void fill_moe_map(const MoeMap& s, const Id* ids, std::int32_t* map) {
  std::int32_t* begins = map + MoeMap::begins();
  std::int32_t* row_of = map + s.row_of();
  std::int32_t* source_of = map + s.source_of();
  std::uint32_t hash = 0;
  std::int32_t wrong = 0;
  for (Index e = 0; e <= s.here; ++e) begins[e] = 0;
  for (Index i = 0; i < s.pairs(); ++i) {
    const auto id = static_cast<Index>(ids[i]);
    hash += id_hash(i, id);
    if (wrong == 0 && !s.is_id(id)) wrong = static_cast<std::int32_t>(i + 1);
    if (s.local(id) >= 0) ++begins[s.local(id) + 1];
  }
  for (Index e = 0; e < s.here; ++e) begins[e + 1] += begins[e];
  for (Index i = begins[s.here]; i < s.pairs(); ++i) source_of[i] = -1;
  // begins[e] serves as a counter here and ends as begins[e + 1]; it is restored below.
  for (Index i = 0; i < s.pairs(); ++i) {
    const Index e = s.local(static_cast<Index>(ids[i]));
    row_of[i] = e < 0 ? -1 : begins[e]++;
    if (e >= 0) source_of[row_of[i]] = static_cast<std::int32_t>(i);
  }
  for (Index e = s.here; e > 0; --e) begins[e] = begins[e - 1];
  begins[0] = 0;
  map[s.wrong()] = wrong;
  map[s.hash()] = static_cast<std::int32_t>(hash);
}

}  // namespace tilelace::schedule
