// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/planners.h"

#include <array>

#include "core/check.h"
#include "tilelace/op_table.h"

namespace tilelace::plan {
namespace {

[[noreturn]] void refuse(const Problem& p) {
  raise(ErrorKind::usage, "{}: device: got cuda, expected cpu: the op has no GPU kernels",
        name_of(p.op));
}

}  // namespace

const Planner kNoPlanner{
    [](const Problem& p, const Machine&, const PlanOptions&) -> Plan { refuse(p); },
    [](const Problem& p, const Machine&,
       const std::vector<std::string>&) -> std::vector<KernelWay> { refuse(p); },
    [](const Problem& p, int, bool) -> Staging { refuse(p); },
};

const Planner& planner_of(Op op) {
  static const std::array rows{&kAgGemmPlanner, &kGemmRsPlanner, &kGemmArPlanner};
  static_assert(rows.size() == op_table().size());
  return *rows.at(static_cast<std::size_t>(op));
}

}  // namespace tilelace::plan
