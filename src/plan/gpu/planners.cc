// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/planners.h"

#include <array>

#include "tilelace/op_table.h"

namespace tilelace::plan {

const Planner& planner_of(Op op) {
  static const std::array rows{&kAgGemmPlanner, &kGemmRsPlanner, &kGemmArPlanner};
  static_assert(rows.size() == op_table().size());
  return *rows.at(static_cast<std::size_t>(op));
}

}  // namespace tilelace::plan
