// SPDX-License-Identifier: Apache-2.0
// Draws random problems and edge cases of the ops, each with a plan. All ranks draw the same cases.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conformance/shape.h"
#include "plan/gemm/gemm_plan.h"
#include "plan/gpu/gpu_ways.h"

namespace tilelace::gpu_test {

using plan::CudaWay;
using test::borders_of;

/// Limits of random sizes, so that a check of all elements takes a millisecond.
constexpr std::int64_t kMostRows = 1100, kMostCols = 700, kMostK = 2100;
constexpr std::size_t kMostWeights = 5;  ///< more weights than one kernel takes

struct Case {
  int index = 0;
  Problem problem;
  Plan plan;
  bool exact = false;      ///< operands are integers, so results are compared bit by bit
  bool odd = false;        ///< single calls between pairs let pairs begin in either staging slot
  std::uint64_t seed = 0;  ///< seed of the case's data
  /// Whether weights and operand are written right before the call.
  [[nodiscard]] bool writes_late() const { return seed % 3 == 0; }
  /// gemm_ar: whether peers can reach the results.
  [[nodiscard]] bool reachable() const { return index / 2 % 2 == 0; }
};

/// The plans to draw from.
struct WayRange {
  Machine machine = cuda_machine();
  std::vector<std::string> kinds = {};  ///< empty: all kinds except those that must be named
  /// Whether the build has the kernels of a plan's tile (TILELACE_TILES); null: all kernels.
  bool (*made)(const plan::GemmPlan&, DType) = nullptr;
};

struct CaseRange {
  Op op = Op::ag_gemm;
  int ranks = 2;
  DType dtype = DType::bf16;
  WayRange ways = {};
  bool gated = false;  ///< ag_gemm: only problems with swiglu
  bool small = false;  ///< whether sizes are at most a quarter of the limits above
};

/// Draws cases. Error: usage (a problem has no plan; no problem drawn has a plan of these kinds).
std::vector<Case> draw_cases(int count, const CaseRange& range, std::uint64_t seed);

/// Plans by kind, the fastest by prediction first. ways_by_kind() omits unfused plans of ag_gemm
/// unless range.kinds names them, since unfused plans consist of the same parts as fused plans.
using WaysByKind = std::map<std::string, std::vector<CudaWay>>;
WaysByKind ways_by_kind(const Problem& problem, const WayRange& range);
/// Whether one of `kinds` begins with `name`.
bool named(const std::vector<std::string>& kinds, std::string_view name);

/// Names what differs most among plans of a kind: ag_gemm's rows of a chunk, or the tile and lag.
std::string sort_of(const Plan& plan);
/// Limit of the relative Frobenius error of the op's results against fp64, whatever the plan.
double frobenius_limit(Op op, DType dtype);
/// Whether calls of ranks that share a device may be captured. They may not be captured if a GEMM
/// waits for rows while copies wait for flags (docs/decisions/0012).
bool is_captured_on_shares(const Plan& plan);

/// All that is needed to repeat the case, as text.
std::string text_of(const Case& c);

}  // namespace tilelace::gpu_test
