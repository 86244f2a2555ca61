// SPDX-License-Identifier: Apache-2.0
// A layer of experts on GPU ranks of one host: the time of each pass, for the numbers of rows that
// a routing gives each expert. Products are simulated tile by tile, in the kernel's order.
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

/// Times of a product grouped by expert: in total, and for each resource alone.
struct GroupedTime {
  plan::GroupedShape shape;
  double tiles = 0;          ///< number of tiles of all workers
  double rows = 0;           ///< number of rows of all experts
  double computed_rows = 0;  ///< rows including the padding of tiles
  double tiles_us = 0;       ///< time until the last worker (cluster) has ended
  double even_us = 0;        ///< time if all workers ended at the same time
  double l2_us = 0;
  double memory_us = 0;  ///< time to move rows, results and weights through memory
  double power_us = 0;
  double fixed_us = 0;
  [[nodiscard]] double total_us() const;
  [[nodiscard]] GroupedBound bound() const;
};

/// The time of a product in tiles of this shape if experts have these numbers of rows.
/// `product.rows` is not read.
GroupedTime grouped_time(const plan::Hardware&, const plan::GroupedProduct& product,
                         const plan::GroupedShape&, std::span<const int> expert_rows);

/// This machine's figures in the form that the planner's predictions use.
plan::Hardware hardware_of(const MachineModel&);

/// Passes in the order in which they run. `gather`: gathers tokens, ids and router weights; if
/// tokens are replicated, it copies only router weights. `reduce`: the second half's collective.
enum class LayerPass : std::uint8_t { gather, map, permute, up, down, sum, reduce };
inline constexpr std::size_t kLayerPasses = 7;
std::string_view name_of(LayerPass);

struct LayerTime {
  std::array<double, kLayerPasses> us{};  ///< time of each pass, in the order of LayerPass
  GroupedTime up, down;
  [[nodiscard]] double of(LayerPass p) const { return us.at(static_cast<std::size_t>(p)); }
  [[nodiscard]] double first_us() const;  ///< The time of the first half.
  [[nodiscard]] double total_us() const;
};

/// The time of a layer on one of `ranks` ranks that have m tokens together. `reduction`: the
/// second half's collective, reduce_scatter or all_reduce. Errors: usage (check_experts).
LayerTime layer_time(const MachineModel&, const MoeLayer&, std::int64_t m, int ranks,
                     tilelace::Collective reduction, std::span<const int> expert_rows);

/// Errors: usage (a machine without kernels for experts or with fewer ranks; a type or a number of
/// experts that GPUs do not take).
void check_experts(const MachineModel&, const MoeLayer&, int ranks);

}  // namespace tilelace::sim
