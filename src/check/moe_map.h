// SPDX-License-Identifier: Apache-2.0
// Checks maps of mixtures of experts (schedule/moe_map.h), whichever code made them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/moe_map.h"

namespace tilelace::check {

/// What is wrong with a map of these ids [m, top_k]; none if all of this holds:
///   `begins` starts at row 0 and gives each expert a row for each id that names it, without gaps;
///   rows and the (token, slot) pairs of this rank's experts match one to one;
///   a row lies in its expert's part, and within each part rows are in the order of (token, slot);
///   `wrong` tells the first id that names no expert, and the hash is that of the ids.
std::optional<std::string> wrong_in_map(const schedule::MoeMap&, std::span<const std::int64_t> ids,
                                        std::span<const std::int32_t> map);

/// Mistakes that a maker of maps could make, to test that wrong_in_map finds them.
enum class MapMutant : std::uint8_t {
  unstable_order,  ///< two rows of an expert are swapped
  late_prefix,     ///< an expert's rows begin one row late
  dropped_row,     ///< a pair has no row
  doubled_row,     ///< two pairs share a row
  foreign_row,     ///< a pair that has no expert on this rank has a row
  unseen_id,       ///< an id that names no expert is not reported
  stale_tail,      ///< a source after the last row is not -1
  old_hash,        ///< the hash is that of other ids
};
inline constexpr std::array kMapMutants{MapMutant::unstable_order, MapMutant::late_prefix,
                                        MapMutant::dropped_row,    MapMutant::doubled_row,
                                        MapMutant::foreign_row,    MapMutant::unseen_id,
                                        MapMutant::stale_tail,     MapMutant::old_hash};
std::string_view name_of(MapMutant);

/// Makes the mistake in a correct map. Returns false if this map cannot have it.
bool bend_map(MapMutant, const schedule::MoeMap&, std::span<std::int32_t> map);

/// Result of checking many maps made by the reference algorithm.
struct MapSweep {
  std::int64_t maps = 0;
  std::string finding;  ///< the first finding, with its routing; empty: none
};
/// Checks all routings of up to 4 tokens, 3 experts and 2 choices, also with ids that name no
/// expert, for each range of experts that a rank may have; then `random` random routings.
MapSweep sweep_maps(std::int64_t random, std::uint64_t seed);

struct MapMutantResult {
  MapMutant mutant{};
  int applied = 0;  ///< number of maps that the mutant changed
  int caught = 0;   ///< number of these maps with a finding
};
/// Tries each mutant on random maps.
std::vector<MapMutantResult> run_map_mutants();

}  // namespace tilelace::check
