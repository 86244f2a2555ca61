// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm_multimem.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "core/check.h"
#include "plan/gemm_ar.h"
#include "schedule/multimem_tiles.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

// Round figures: links measured without a switch that adds (docs/decisions/0006), never timed.
constexpr double kSendBytesPerUs = 330e3;
constexpr double kTailUs = 10;

/// A rank's link brings its partials to the switch and its share of the sums, one way; the sums of
/// all, and its share to be stored, the other way.
double predict(const Problem& p, const GemmPlan& gemm) {
  const auto bytes = static_cast<double>(p.m * p.n.front()) * 2;
  const double moved = bytes * (1 + 1.0 / p.ranks) / kSendBytesPerUs;
  return std::max(gemm.predicted_us, moved) + kTailUs;
}

}  // namespace

std::string describe(const GemmMultimemPlan& plan) {
  return fmt::format("multimem{}, {}; {}", plan.emulated ? " emulated" : "",
                     plan.direct ? "direct" : "staged", describe(plan.gemm));
}

std::ostream& operator<<(std::ostream& out, const GemmMultimemPlan& plan) {
  return out << describe(plan);
}

std::vector<GemmMultimemPlan> gemm_multimem_candidates(const Problem& p, const GemmMachine& machine,
                                                       bool emulated) {
  require_gemm_ar(p);
  require(p.m > 0, "gemm_ar: m, got 0, expected rows to plan for");
  constexpr double kStagedUs = 1e-3;  // the copy goes under the next tiles; beside the direct way
  std::vector<GemmMultimemPlan> plans;
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (!can_multimem(gemm.tile.name) || gemm.split_tiles != 0) continue;
    const double us = predict(p, gemm);
    plans.push_back({gemm, true, emulated, us});
    plans.push_back({gemm, false, emulated, us + kStagedUs});
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const GemmMultimemPlan& a, const GemmMultimemPlan& b) {
                     return a.predicted_us < b.predicted_us;
                   });
  return plans;
}

int multimem_roundings(const Problem& p) {
  return p.bias || p.residual || p.activation != Activation::none ? 2 : 1;
}

std::int64_t gemm_multimem_staging_bytes(const Problem& p) {
  require_gemm_ar(p);
  return p.m * p.n.front() * static_cast<Index>(size_of(p.dtype));
}

std::int64_t gemm_multimem_counts(const Problem& p) {
  require_gemm_ar(p);
  Index most = 0;
  for (const GemmTile& t : kGemmTiles) {
    if (!can_multimem(t.name)) continue;
    const Index tiles = ceil_div(p.m, t.worker_rows()) * ceil_div(p.n.front(), t.worker_cols());
    most = std::max(most, tiles * t.cluster());
  }
  return schedule::num_counts(static_cast<int>(most));
}

}  // namespace tilelace::plan
