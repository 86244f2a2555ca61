// SPDX-License-Identifier: Apache-2.0
// Plans of the ops, fused or not, as far as checks and benches need not know which op it is.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "conformance/shape.h"
#include "plan/ag_gemm.h"
#include "plan/gemm_ar.h"
#include "plan/gemm_hand.h"
#include "plan/gemm_reduce.h"
#include "plan/gemm_rs.h"
#include "plan/gemm_sums.h"

namespace tilelace::gpu_test {

using test::borders_of;
using test::OpShape;
using test::owner_of;

using OpPlan = std::variant<plan::AgGemmPlan, plan::GemmRsPlan, plan::GemmArPlan,
                            plan::GemmReducePlan, plan::GemmHandPlan, plan::GemmSumsPlan>;

/// Plans that are made only where they are asked for.
struct Extras {
  bool nccl = false;    ///< ag_gemm: rows by NCCL
  bool hands = false;   ///< gemm_rs: partials that are handed to owners
  bool behind = false;  ///< ag_gemm: products behind all rows
  /// Whether a build has the kernels of a plan's tile (TILELACE_TILES); null: of all.
  bool (*made)(const plan::GemmPlan&, DType) = nullptr;
};

/// All legal plans, fastest prediction first. Error: usage (a problem that has none).
std::vector<OpPlan> candidates_of(const Problem& problem, const plan::GemmMachine& machine = {},
                                  const Extras& extras = {});

/// What the planner takes by itself; of a gemm_ar whose results peers reach, the direct way of it.
OpPlan default_of(const Problem& problem);

std::string describe(const OpPlan& plan);
/// "push by shard", "ring by shard", "medium push", "unfused store": what names a way of moving
/// rows and cutting tiles.
std::string kind_of(const OpPlan& plan);
/// All of them.
const std::vector<std::string>& known_kinds();
Path path_of(const OpPlan& plan);
Transport transport_of(const OpPlan& plan);
double predicted_us(const OpPlan& plan);
/// How often a rank's part of a sum, or a sum of some, is rounded before the last rounding.
int roundings_of(const OpPlan& plan, const Problem& problem);
/// Of its results against fp64: what their relative Frobenius error may be.
double frobenius_limit(const OpPlan& plan, const Problem& problem);
/// Whether it gives the same bits in every run.
bool is_steady(const OpPlan& plan);
/// Whether calls of ranks that share a device may be captured: not where a product waits beside
/// copies that wait (docs/decisions/0012).
bool is_captured_on_shares(const OpPlan& plan);
/// The product in it.
const plan::GemmPlan& gemm_of(const OpPlan& plan);

/// Everything that is needed to make it again.
std::string text_of(const Problem& problem);

}  // namespace tilelace::gpu_test
