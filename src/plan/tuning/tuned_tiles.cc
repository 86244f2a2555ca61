// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/tuned_tiles.h"

#include <fmt/format.h>

#include "plan/gemm/architecture_plans.h"
#include "plan/tuning/grouped_rows.h"
#include "plan/tuning/tuned_plan.h"

namespace tilelace::plan {
namespace {

/// Whether rows of the one say anything of the other.
bool speaks_of(const GroupedProduct& a, const GroupedProduct& b) {
  return a.gated == b.gated && size_of(a.dtype) == size_of(b.dtype) && a.rows > 0 && b.rows > 0;
}

/// The nearest row of a table and those behind it; of equally near ones, as tables stand.
struct NearTiles {
  double distance = kFarthestRow;
  const TuningTable* table = nullptr;
  const TunedTiles* row = nullptr;
};

NearTiles nearest_tiles(const TuningTable* table, const GroupedProduct& p, const Machine& machine) {
  NearTiles near;
  for (; table != nullptr; table = table->behind.get()) {
    if (!table->fits(machine)) continue;
    for (const TunedTiles& row : table->grouped) {
      if (!speaks_of(row.product, p)) continue;
      const double distance = tuning_distance(row.product, p);
      if (distance < near.distance || (near.row == nullptr && distance == near.distance))
        near = {distance, table, &row};
    }
  }
  return near;
}

}  // namespace

double tuning_distance(const GroupedProduct& row, const GroupedProduct& asked) {
  return size_factor(row.rows, asked.rows) + size_factor(row.experts, asked.experts) +
         size_factor(row.n, asked.n) + size_factor(row.k, asked.k);
}

bool has_own_row(const TuningTable* table, const GroupedProduct& p, const Machine& machine) {
  const NearTiles near = nearest_tiles(table, p, machine);
  return near.row != nullptr && near.distance == 0;
}

TilesChoice choose_tiles(const GroupedProduct& p, const Machine& machine) {
  const NearTiles near = nearest_tiles(machine.tuning.get(), p, machine);
  if (near.row != nullptr) {
    const GroupedProduct& r = near.row->product;
    const std::string how =
        near.distance == 0
            ? "the fastest measured"
            : fmt::format("tiles of the nearest row (distance {:.2f})", near.distance);
    return {near.row->shape,
            fmt::format("tuned: {}, {:.1f} us at {} rows, {} experts, n {}, k {} in {}", how,
                        near.row->us, r.rows, r.experts, r.n, r.k, near.table->file)};
  }
  const GroupedShape& shape = grouped_plans_of(kGroupedOp, machine.architecture).rule(p);
  TilesChoice choice{
      shape, fmt::format("rule: {}: {:.1f} rows per expert, k {}", shape.purpose,
                         static_cast<double>(p.rows) / static_cast<double>(p.experts), p.k)};
  if (machine.tuning != nullptr) choice.reason += "; " + why_not_tuned(*machine.tuning, machine);
  return choice;
}

}  // namespace tilelace::plan
