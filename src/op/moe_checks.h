// SPDX-License-Identifier: Apache-2.0
// Reads and checks the arguments of mixtures of experts, on one rank alone, before anything is
// sent.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/moe_map.h"
#include "tilelace/moe.h"

namespace tilelace::op {

/// `hidden` and `inner` of a layer are multiples of this.
constexpr std::int64_t kMoeGrain = 8;

/// Number of the layer's experts that this rank has.
std::int64_t experts_here(const MoeLayer&);
/// Rows of one expert in the first weight.
std::int64_t expert_width(const MoeLayer&);

/// A call's sizes on this rank.
struct MoeCall {
  schedule::MoeMap map;
  std::vector<std::int64_t> rows;  ///< tokens of every rank
  std::int64_t begin = 0;          ///< first token of this rank
};

/// Each of these functions throws a usage error that names the first fault.
void check_layer(std::string_view op, const MoeLayer&);
schedule::MoeMap map_of(std::string_view op, const MoeLayer&, std::int64_t m);
MoeCall check_call(const AgMoeArgs&, int rank, int ranks);
MoeCall check_call(std::string_view op, const MoeReduceArgs&, bool scatters, int rank, int ranks);
void check_grouped(const GroupedGemmArgs&);
/// Checks a map in host memory. Its words are used as indices, so they must be in range.
void check_map(std::string_view op, const schedule::MoeMap&, const std::int32_t* map);
/// Throws if the map says that an id names no expert (MoeMap::wrong).
void check_ids(std::string_view op, const schedule::MoeMap&, const std::int32_t* map);

/// The properties of a call that must be equal on all ranks, as a text.
std::string words_of(const MoeLayer&, std::int64_t m);

}  // namespace tilelace::op
