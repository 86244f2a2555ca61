// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/grouped_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/architecture.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::plan {
namespace {

GroupedProduct grouped_product_of(const TableFields& row, DType dtype) {
  require(row.whole("ranks") == 1, "{}: ranks: got {}, expected 1: each rank has its own product",
          row.where(), row.whole("ranks"));
  const auto n = row.list("n");
  require(n.size() == 1, "{}: n: got {} numbers, expected one", row.where(), n.size());
  const GroupedProduct p{row.whole("m"),     n[0], row.whole("k"), row.whole("experts"),
                         row.flag("swiglu"), dtype};
  require(p.experts <= kMostMoeExperts, "{}: experts: got {}, expected at most {}", row.where(),
          p.experts, kMostMoeExperts);
  const std::int64_t of_n = grain_of(dtype, p.gated), of_k = grain_of(dtype);
  require(p.n % of_n == 0 && p.k % of_k == 0, "{}: n {}, k {}: expected multiples of {} and {}",
          row.where(), p.n, p.k, of_n, of_k);
  return p;
}

const GroupedShape& shape_of(const TableFields& row, const GroupedPlans& plans) {
  const std::string name = row.text("plan");
  if (const GroupedShape* const shape = plans.find(name)) return *shape;
  std::vector<std::string_view> names;
  for (const GroupedShape& s : plans.shapes) names.emplace_back(s.name);
  raise(ErrorKind::usage, "{}: plan: got \"{}\", expected one of {}", row.where(), name,
        fmt::join(names, ", "));
}

}  // namespace

bool is_grouped(const TableFields& row) { return row.text("op") == kGroupedOp; }

bool take_grouped(const TableFields& row, TuningTable& table) {
  const std::string type = row.text("dtype"), kernels = row.text("kernels");
  const auto dtype = dtype_named(type);
  const std::string& architecture = table.device.architecture;
  const GroupedPlans& plans = plans_of(architecture_named(architecture).value()).grouped;
  if (!dtype || plans.shapes.empty()) {
    table.notes.push_back(fmt::format("{}: left out: this build does not know {} of {}",
                                      row.where(), kGroupedOp, dtype ? architecture : type));
    return true;
  }
  const GroupedShape& shape = shape_of(row, plans);
  if (kernels != grouped_kernels(shape)) return false;
  const TunedTiles tuned{grouped_product_of(row, *dtype), shape, row.time("us")};
  require(
      std::ranges::find(table.grouped, tuned.product, &TunedTiles::product) == table.grouped.end(),
      "{}: a second entry for {} with m {}, {} experts, n {}, k {}: keep one of them", row.where(),
      kGroupedOp, tuned.product.rows, tuned.product.experts, tuned.product.n, tuned.product.k);
  table.grouped.push_back(tuned);
  return true;
}

}  // namespace tilelace::plan
