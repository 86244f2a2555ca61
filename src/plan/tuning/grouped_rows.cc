// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/grouped_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "plan/base/problem.h"

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

GroupedTiling tiling_of(const TableFields& row) {
  const std::string name = row.text("plan");
  if (const auto tiling = tiling_named(name)) return *tiling;
  std::vector<std::string_view> names;
  for (const GroupedShape& s : kGroupedShapes) names.emplace_back(s.name);
  raise(ErrorKind::usage, "{}: plan: got \"{}\", expected one of {}", row.where(), name,
        fmt::join(names, ", "));
}

}  // namespace

std::optional<GroupedTiling> tiling_named(std::string_view name) {
  const auto* const tiling = std::ranges::find(
      kGroupedTilings, name, [](GroupedTiling t) { return std::string_view(shape_of(t).name); });
  return tiling == std::end(kGroupedTilings) ? std::nullopt : std::optional(*tiling);
}

bool is_grouped(const TableFields& row) { return row.text("op") == kGroupedOp; }

bool take_grouped(const TableFields& row, TuningTable& table) {
  const std::string type = row.text("dtype"), kernels = row.text("kernels");
  const auto dtype = dtype_named(type);
  if (!dtype) {
    table.notes.push_back(fmt::format("{}: left out: this build does not know {} of {}",
                                      row.where(), kGroupedOp, type));
    return true;
  }
  const GroupedTiling tiling = tiling_of(row);
  if (kernels != grouped_kernels(tiling)) return false;
  const TunedTiles tuned{grouped_product_of(row, *dtype), tiling, row.time("us")};
  require(
      std::ranges::find(table.grouped, tuned.product, &TunedTiles::product) == table.grouped.end(),
      "{}: a second entry for {} with m {}, {} experts, n {}, k {}: keep one of them", row.where(),
      kGroupedOp, tuned.product.rows, tuned.product.experts, tuned.product.n, tuned.product.k);
  table.grouped.push_back(tuned);
  return true;
}

}  // namespace tilelace::plan
