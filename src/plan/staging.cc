// SPDX-License-Identifier: Apache-2.0
#include "plan/staging.h"

#include <fmt/format.h>

#include "plan/kernel_choice.h"
#include "plan/problem.h"

namespace tilelace::plan {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::int64_t gathered_row(const Problem& p) {
  return p.k * static_cast<std::int64_t>(size_of(p.dtype));
}

SlotNeeds sum_needs(const Problem& p, bool hands) {
  const std::int64_t sums = gemm_reduce_staging_bytes(p);
  if (p.op == Op::gemm_ar)
    return {size(kGemmArFlags), size(std::max(sums, gemm_ar_staging_bytes(p))),
            size(gemm_sums_counts(p))};
  const std::int64_t handed = hands ? gemm_hand_staging_bytes(p) : 0;
  return {size(kMaxPartialFlags), size(std::max({sums, gemm_rs_staging_bytes(p), handed}))};
}

std::string sum_formula(const Problem& p, const SlotNeeds& needs, bool hands) {
  const bool all = p.op == Op::gemm_ar;
  // Calls with fewer rows may take the other path.
  const std::int64_t fused = all ? gemm_ar_staging_bytes(p) : gemm_rs_staging_bytes(p);
  const std::int64_t behind =
      std::max(gemm_reduce_staging_bytes(p), hands ? gemm_hand_staging_bytes(p) : 0);
  return fmt::format(
      "flags 4*{} + max(partials in whole tiles{} {}, behind the product {}: m {} "
      "partials of row {}, of few rows the peers' too{})",
      needs.flags + needs.counts, all ? " and results" : "", fused, behind, p.m, row_bytes(p),
      hands ? ", and what comes in" : "");
}

}  // namespace

SlotNeeds slot_needs(const Problem& p, bool hands) {
  if (p.op != Op::ag_gemm) return sum_needs(p, hands);
  return {size(2 * p.ranks * kMaxChunks), size(p.m * gathered_row(p))};
}

void tell_staging(const Problem& p, Plan& plan) {
  const bool hands = way_of(plan.op, plan.path, plan.route, plan.transport).has_value();
  const SlotNeeds needs = slot_needs(p, hands);
  plan.staging_bytes = static_cast<std::int64_t>((needs.flags + needs.counts) * 4 + needs.bytes);
  plan.staging_formula = p.op != Op::ag_gemm ? sum_formula(p, needs, hands)
                                             : fmt::format("flags 4*{} + gathered m {} * row {}",
                                                           needs.flags, p.m, gathered_row(p));
}

}  // namespace tilelace::plan
