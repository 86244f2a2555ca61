// SPDX-License-Identifier: Apache-2.0
// What the planner knows about each architecture: its tiles, and the figures of its devices.
#pragma once
#include <span>
#include <string_view>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

struct ArchitecturePlans {
  std::string_view architecture;  ///< name in kArchitectures (core/architecture.h)
  /// The tiles that have kernels. The functions of gemm_tiles.h say which kernels a tile has.
  std::span<const GemmTile> tiles;
  Hardware hardware;  ///< figures that predictions use
};

/// The entry of the architecture with this number, which is its index in kArchitectures.
const ArchitecturePlans& plans_of(int architecture);

/// The rates of a machine's devices and links, which all predictions ask for here. The machine is a
/// Machine, GemmMachine or CollectiveMachine, or a GemmPlan that was made for one.
template <class Known>
const Hardware& hardware_of(const Known& machine) {
  return plans_of(machine.architecture).hardware;
}

}  // namespace tilelace::plan
