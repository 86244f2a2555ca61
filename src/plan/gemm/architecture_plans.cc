// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/architecture_plans.h"

#include <algorithm>
#include <array>

#include "core/architecture.h"
#include "core/check.h"
#include "hardware_values.h"
#include "plan/sm90_grouped.h"

namespace tilelace::plan {
namespace {

constexpr std::array kRows{ArchitecturePlans{
    "sm_90a", kGemmTiles, k_sm_90a_hardware, {kSm90GroupedShapes, sm90_grouped_shape}}};
static_assert(are_architectures(kRows));

}  // namespace

const GroupedShape* GroupedPlans::find(std::string_view name) const {
  const auto found = std::ranges::find(shapes, name, &GroupedShape::name);
  return found == shapes.end() ? nullptr : &*found;
}

const ArchitecturePlans& plans_of(int architecture) {
  return kRows.at(static_cast<std::size_t>(architecture));
}

bool has_experts(int architecture) { return !plans_of(architecture).grouped.shapes.empty(); }

std::string architectures_with_experts() {
  std::string text;
  for (const ArchitecturePlans& row : kRows)
    if (!row.grouped.shapes.empty())
      text += (text.empty() ? "" : " or ") + std::string(row.architecture);
  return text;
}

const GroupedPlans& grouped_plans_of(std::string_view who, int architecture) {
  if (!has_experts(architecture))  // each call asks: the text only then
    raise(ErrorKind::usage,
          "{}: experts: got GPUs of {}, expected GPUs of {}: only these have kernels for mixtures "
          "of experts",
          who, name_of_architecture(architecture), architectures_with_experts());
  return plans_of(architecture).grouped;
}

}  // namespace tilelace::plan
