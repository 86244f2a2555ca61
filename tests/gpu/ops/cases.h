// SPDX-License-Identifier: Apache-2.0
// Random problems of the ops with their edges, each with one of its plans; the same on every rank.
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

/// Bounds of what is drawn, so that a check of every element takes a millisecond.
constexpr std::int64_t kMostRows = 1100, kMostCols = 700, kMostK = 2100;
constexpr std::size_t kMostWeights = 5;  ///< more than one kernel takes at once

struct Case {
  int index = 0;
  Problem problem;
  Plan plan;
  bool exact = false;      ///< integers, compared bit by bit; else normal variates and fp64
  bool odd = false;        ///< single calls before and after the pair, so that slots change places
  std::uint64_t seed = 0;  ///< of its data
  /// Weights and operand are written right before the call.
  [[nodiscard]] bool writes_late() const { return seed % 3 == 0; }
  /// gemm_ar: peers reach the results.
  [[nodiscard]] bool reachable() const { return index / 2 % 2 == 0; }
};

/// Which plans are looked at.
struct WayRange {
  Machine machine = cuda_machine();
  std::vector<std::string> kinds = {};  ///< none: all but what only named kinds have
  /// Whether a build has the kernels of a plan's tile (TILELACE_TILES); null: of all.
  bool (*made)(const plan::GemmPlan&, DType) = nullptr;
};

struct CaseRange {
  Op op = Op::ag_gemm;
  int ranks = 2;
  DType dtype = DType::bf16;
  WayRange ways = {};
  bool gated = false;  ///< ag_gemm: problems with swiglu alone
  bool small = false;  ///< problems up to a quarter as long each way
};

/// Error: usage (a problem that has no plan; no problem that has one of the kinds).
std::vector<Case> draw_cases(int count, const CaseRange& range, std::uint64_t seed);

/// By kind, each fastest prediction first. An ag_gemm's unfused ones, made of what the fused ones
/// are, only where they are named.
using WaysByKind = std::map<std::string, std::vector<CudaWay>>;
WaysByKind ways_by_kind(const Problem& problem, const WayRange& range);
/// Whether the name of one of these begins so.
bool named(const std::vector<std::string>& kinds, std::string_view name);

/// What plans of one kind differ in most: the size of chunks, the shape of tiles.
std::string sort_of(const Plan& plan);
/// How often a rank's part of a sum, or a sum of some, is rounded before the last rounding.
int roundings_of(const Plan& plan, const Problem& problem);
/// Of its results against fp64: what their relative Frobenius error may be.
double frobenius_limit(const Plan& plan, const Problem& problem);
/// Whether it gives the same bits in every run.
bool is_steady(const Plan& plan);
/// Whether calls of ranks that share a device may be captured: not where a product waits beside
/// copies that wait (docs/decisions/0012).
bool is_captured_on_shares(const Plan& plan);

/// Everything that is needed to make it again.
std::string text_of(const Case& c);

}  // namespace tilelace::gpu_test
