// SPDX-License-Identifier: Apache-2.0
// Random problems of the fused ops with their edges, each with one of its plans; the same on every
// rank.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ops/op_plan.h"

namespace tilelace::gpu_test {

/// Bounds of what is drawn, so that a check of every element takes a millisecond.
constexpr std::int64_t kMostRows = 1100, kMostCols = 700, kMostK = 2100;
constexpr std::size_t kMostWeights = 5;  ///< more than one kernel takes at once

struct Case {
  int index = 0;
  Problem problem;
  OpPlan plan;
  bool exact = false;      ///< integers, compared bit by bit; else normal variates and fp64
  bool odd = false;        ///< single calls before and after the pair, so that slots change places
  std::uint64_t seed = 0;  ///< of its data
};

struct CaseRange {
  Op op = Op::ag_gemm;
  int ranks = 2;
  DType dtype = DType::bf16;
  plan::GemmMachine machine;
  std::vector<std::string> kinds = {};  ///< of plans; empty: all
  bool gated = false;                   ///< ag_gemm: problems with swiglu alone
  bool small = false;                   ///< problems up to a quarter as long each way
  bool (*made)(const plan::GemmPlan&, DType) = nullptr;  ///< as Extras
};

/// Error: usage (a problem that has no plan; no problem that has one of the kinds).
std::vector<Case> draw_cases(int count, const CaseRange& range, std::uint64_t seed);

/// All plans, by kind_of, fastest prediction first.
using PlansByKind = std::map<std::string, std::vector<OpPlan>>;
PlansByKind plans_by_kind(const Problem& problem, const plan::GemmMachine& machine,
                          const Extras& extras = {});
/// What checks of these kinds (none: of all) ask for: NCCL only where it is named.
Extras extras_of(const std::vector<std::string>& kinds,
                 bool (*made)(const plan::GemmPlan&, DType) = nullptr);
/// Leaves these kinds alone. No kinds: all.
PlansByKind only(PlansByKind plans, const std::vector<std::string>& kinds);

/// What plans of one kind differ in most: the size of chunks, the shape of tiles.
std::string sort_of(const OpPlan& plan);

/// Everything that is needed to make it again.
std::string text_of(const Case& c);

}  // namespace tilelace::gpu_test
