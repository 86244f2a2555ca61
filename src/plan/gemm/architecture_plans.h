// SPDX-License-Identifier: Apache-2.0
// What the planner knows about each architecture: its tiles, those of products grouped by expert,
// and the figures of its devices.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"
#include "plan/grouped_product.h"

namespace tilelace::plan {

/// The tiles of products grouped by expert. Without shapes: there are no kernels for them.
struct GroupedPlans {
  std::span<const GroupedShape> shapes = {};
  /// The shape of a product that no table names. It must depend only on sizes, so that a captured
  /// call works for every routing.
  const GroupedShape& (*rule)(const GroupedProduct&) = nullptr;

  /// The shape with this name, or null.
  [[nodiscard]] const GroupedShape* find(std::string_view name) const;
};

struct ArchitecturePlans {
  std::string_view architecture;  ///< name in kArchitectures (core/architecture.h)
  /// The tiles that have kernels. The functions of gemm_tiles.h say which kernels a tile has.
  std::span<const GemmTile> tiles;
  Hardware hardware;          ///< figures that predictions use
  GroupedPlans grouped = {};  ///< none: experts are refused
};

/// The entry of the architecture with this number, which is its index in kArchitectures.
const ArchitecturePlans& plans_of(int architecture);

/// Whether the architecture has kernels for mixtures of experts.
bool has_experts(int architecture);
/// The names of the architectures that have, as a text for errors.
std::string architectures_with_experts();
/// The architecture's tiles of products grouped by expert. Errors: usage (it has none; `who` begins
/// the text).
const GroupedPlans& grouped_plans_of(std::string_view who, int architecture);

/// The rates of a machine's devices and links, which all predictions ask for here. The machine is a
/// Machine, GemmMachine or CollectiveMachine, or a GemmPlan that was made for one.
template <class Known>
const Hardware& hardware_of(const Known& machine) {
  return plans_of(machine.architecture).hardware;
}

}  // namespace tilelace::plan
