// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/tuned_plan.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "plan/gpu/gpu_plan.h"
#include "plan/gpu/planners.h"
#include "plan/gpu/way_choice.h"
#include "plan/words/agreement.h"

namespace tilelace::plan {
namespace {

/// Whether rows of the one say anything of the other.
bool comparable(const Problem& a, const Problem& b) {
  return a.op == b.op && a.ranks == b.ranks && size_of(a.dtype) == size_of(b.dtype) &&
         a.n.size() == b.n.size() &&
         (a.activation == Activation::swiglu) == (b.activation == Activation::swiglu);
}

/// Whether the products of two plans are walked and split alike.
bool walked_alike(const GemmPlan& a, const GemmPlan& b) {
  return a.along_cols == b.along_cols && a.by_neighbours == b.by_neighbours &&
         a.rounds == b.rounds && (a.split_tiles > 0) == (b.split_tiles > 0);
}

/// Of which `asked` is another half type, perhaps.
std::string of_row(const TuningTable& table, const TunedRow& row, const Problem& asked) {
  const Problem& p = row.problem;
  const auto type = p.dtype == asked.dtype ? "" : fmt::format(" in {}", name_of(p.dtype));
  return fmt::format("{:.1f} us at m {} n {} k {}{} in {}", row.us, p.m, fmt::join(p.n, "+"), p.k,
                     type, table.file);
}

/// The candidate, with shards of ag_gemm joining the walk where they do in the measured plan:
/// candidates have them join when rows are predicted to come.
KernelWay joined_like(KernelWay way, const KernelWay& measured) {
  auto* const gather = std::get_if<AgGemmWay>(&way);
  const auto* const other = std::get_if<AgGemmWay>(&measured);
  if (gather != nullptr && other != nullptr && gather->joins.size() == other->joins.size())
    gather->joins = other->joins;
  return way;
}

/// The candidate that is this very plan.
std::optional<KernelWay> same_as(const TunedRow& row, const Problem& p,
                                 const std::vector<KernelWay>& all) {
  Plan in_type = row.plan;
  in_type.partials = p.dtype;
  const std::string wanted = choice_bytes(in_type);
  const KernelWay& measured = row.plan.kernel->way;
  for (const KernelWay& way : all) {
    if (!multiply_alike(way, measured)) continue;
    KernelWay joined = joined_like(way, measured);
    if (choice_bytes(plan_of(p, joined)) == wanted) return joined;
  }
  return std::nullopt;
}

/// The candidate most like the row's plan, of the fastest prediction; null: none of its kind and
/// product.
const KernelWay* like(const TunedRow& row, const Problem& p, const std::vector<KernelWay>& all) {
  const KernelWay& measured = row.plan.kernel->way;
  const KernelWay* best = nullptr;
  bool best_alike = false;
  for (const KernelWay& way : all) {
    if (!multiply_alike(way, measured) || kind_of(p.op, way) != row.kind) continue;
    const bool alike = walked_alike(gemm_of(way), gemm_of(measured));
    if (best != nullptr &&
        (alike != best_alike ? best_alike : predicted_us_of(way) >= predicted_us_of(*best)))
      continue;
    best = &way;
    best_alike = alike;
  }
  return best;
}

/// A row that says something of a problem.
struct Near {
  double distance;
  const TuningTable* table;
  const TunedRow* row;
};

/// Of a table and those behind it, the nearest first; of equally near ones, those of the problem's
/// type, then as tables stand.
std::vector<Near> near_rows(const TuningTable& first, const Problem& p, const Machine& machine) {
  std::vector<Near> near;
  for (const TuningTable* table = &first; table != nullptr; table = table->behind.get()) {
    if (!table->fits(machine)) continue;
    for (const TunedRow& row : table->rows)
      if (comparable(row.problem, p))
        if (const double distance = tuning_distance(row.problem, p); distance <= kFarthestRow)
          near.push_back({distance, table, &row});
  }
  std::ranges::stable_sort(near, {}, [&](const Near& n) {
    return std::pair(n.distance, n.row->problem.dtype != p.dtype);
  });
  return near;
}

/// Whether a near row cannot be taken because cuBLASLt is not there.
bool lacks_cublas(const TuningTable& table, const Problem& p, const Machine& machine) {
  return !machine.cublas && std::ranges::any_of(near_rows(table, p, machine), [](const Near& near) {
    return cublas_of(near.row->plan.kernel->way) > 0;
  });
}

}  // namespace

bool has_own_row(const TuningTable* table, const Problem& p, const Machine& machine) {
  for (; table != nullptr; table = table->behind.get())
    if (table->fits(machine))
      for (const TunedRow& row : table->rows)
        if (comparable(row.problem, p) && tuning_distance(row.problem, p) == 0 &&
            row.problem.n == p.n)
          return true;
  return false;
}

double size_factor(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

std::string why_not_tuned(const TuningTable& table, const Machine& machine) {
  std::string why = fmt::format("{} has no row near it", table.file);
  if (table.rows.empty() && table.grouped.empty() && !table.notes.empty())
    why = table.notes.front();
  else if (!table.fits(machine))
    why = fmt::format("{} is for {}", table.file, said_of(table.device));
  return table.behind == nullptr ? why : why + "; " + why_not_tuned(*table.behind, machine);
}

double tuning_distance(const Problem& row, const Problem& asked) {
  return size_factor(row.m, asked.m) + size_factor(row.total_n(), asked.total_n()) +
         size_factor(row.k, asked.k);
}

std::optional<Plan> tuned_plan(const TuningTable& table, const Problem& p, const Machine& machine) {
  if (p.m == 0) return std::nullopt;
  const std::vector<Near> near = near_rows(table, p, machine);
  if (near.empty()) return std::nullopt;
  std::vector<KernelWay> all = planner_of(p.op).every(p, machine, {});
  std::erase_if(all, [](const KernelWay& way) { return !may_be_tuned(way); });
  for (const auto& [distance, from, row] : near) {
    const bool own = row->problem.m == p.m && row->problem.n == p.n && row->problem.k == p.k;
    std::optional<KernelWay> way = own ? same_as(*row, p, all) : std::nullopt;
    const bool exact = way.has_value();
    if (!exact)
      if (const KernelWay* alike = like(*row, p, all)) way = *alike;
    if (!way) continue;
    Plan plan = plan_of(p, *way);
    plan.reason = exact
                      ? fmt::format("tuned: the fastest measured, {}", of_row(*from, *row, p))
                      : fmt::format("tuned: kind and tile of the nearest row (distance {:.2f}), {}",
                                    distance, of_row(*from, *row, p));
    return plan;
  }
  return std::nullopt;
}

Plan tuned_or_predicted(const Problem& p, const Machine& machine, const PlanOptions& options) {
  Plan predicted = make_cuda_plan(p, machine, options);
  if (machine.tuning == nullptr || !(options == PlanOptions{})) return predicted;
  auto tuned = tuned_plan(*machine.tuning, p, machine);
  Plan& taken = tuned ? *tuned : predicted;
  if (p.m > 0 && lacks_cublas(*machine.tuning, p, machine))
    taken.reason += "; a near row has a product of cuBLASLt, which was not found here";
  else if (!tuned)
    taken.reason += "; " + why_not_tuned(*machine.tuning, machine);
  if (!tuned) return predicted;
  tuned->rejected.push_back(fmt::format("prediction: {}", fmt::streamed(predicted)));
  return *std::move(tuned);
}

}  // namespace tilelace::plan
