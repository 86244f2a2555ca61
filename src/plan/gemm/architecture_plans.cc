// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/architecture_plans.h"

#include <array>

#include "core/architecture.h"
#include "hardware_values.h"

namespace tilelace::plan {
namespace {

constexpr std::array kRows{ArchitecturePlans{"sm_90a", kGemmTiles, k_sm_90a_hardware}};
static_assert(are_architectures(kRows));

}  // namespace

const ArchitecturePlans& plans_of(int architecture) {
  return kRows.at(static_cast<std::size_t>(architecture));
}

}  // namespace tilelace::plan
