// SPDX-License-Identifier: Apache-2.0
// A layer of experts on GPU ranks of one host, pass by pass: the time of each for the rows that a
// routing gives each expert. Products are walked tile by tile, as their kernel does.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "plan/base/hardware.h"
#include "plan/grouped_product.h"
#include "sim/machine.h"
#include "tilelace/moe.h"

namespace tilelace::sim {

/// What limits a product.
enum class GroupedBound : std::uint8_t { tiles, few_tiles, l2, memory, power, fixed };
std::string_view name_of(GroupedBound);

/// A product grouped by expert, and what each resource alone would take for it.
struct GroupedTime {
  plan::GroupedTiling tiling{};
  double tiles = 0;          ///< of all workers
  double rows = 0;           ///< of all experts
  double computed_rows = 0;  ///< with what tiles pad
  double tiles_us = 0;       ///< of the multiprocessor that ends last
  double even_us = 0;        ///< if all multiprocessors ended together
  double l2_us = 0;
  double memory_us = 0;  ///< weights of experts that have rows, rows and results
  double power_us = 0;
  double fixed_us = 0;
  [[nodiscard]] double total_us() const;
  [[nodiscard]] GroupedBound bound() const;
};

/// The time for experts with these rows. The shape is that of a call with `product.rows` rows.
GroupedTime grouped_time(const plan::Hardware&, const plan::GroupedProduct& product,
                         plan::GroupedTiling, std::span<const int> expert_rows);

/// The figures that the planner's predictions use, for this machine.
plan::Hardware hardware_of(const MachineModel&);

/// Passes in the order in which they run. `gather`: tokens, ids and router's weights, or, if tokens
/// are replicated, a copy of the weights; `reduce`: the second half's collective.
enum class LayerPass : std::uint8_t { gather, map, permute, up, down, sum, reduce };
inline constexpr std::size_t kLayerPasses = 7;
std::string_view name_of(LayerPass);

struct LayerTime {
  std::array<double, kLayerPasses> us{};  ///< by LayerPass
  GroupedTime up, down;
  [[nodiscard]] double of(LayerPass p) const { return us.at(static_cast<std::size_t>(p)); }
  [[nodiscard]] double first_us() const;  ///< of the first half
  [[nodiscard]] double total_us() const;
};

/// The time of a layer on one of `ranks` ranks, with m tokens of all ranks. `reduction`: the second
/// half's collective, reduce_scatter or all_reduce. Errors: usage (check_experts).
LayerTime layer_time(const MachineModel&, const MoeLayer&, std::int64_t m, int ranks,
                     tilelace::Collective reduction, std::span<const int> expert_rows);

/// Errors: usage (a machine without kernels for experts or with fewer ranks; a type or a number of
/// experts that GPUs do not take).
void check_experts(const MachineModel&, const MoeLayer&, int ranks);

}  // namespace tilelace::sim
