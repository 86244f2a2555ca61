// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/moe/architecture_grouped.h"

#include <array>

#include "backend/cuda/moe/sm90_grouped.h"
#include "core/architecture.h"
#include "core/check.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::cuda {
namespace {

constexpr std::array kRows{ArchitectureGrouped{"sm_90a", launch_sm90_grouped, load_sm90_grouped}};
static_assert(are_architectures(kRows));

}  // namespace

const ArchitectureGrouped& grouped_of(int architecture) {
  plan::grouped_plans_of("grouped_gemm", architecture);
  const ArchitectureGrouped& row = kRows.at(static_cast<std::size_t>(architecture));
  if (row.launch == nullptr)
    raise(ErrorKind::system, "grouped_gemm: {}: this build has no kernels for the tiles of plans",
          name_of_architecture(architecture));
  return row;
}

}  // namespace tilelace::cuda
