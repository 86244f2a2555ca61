// SPDX-License-Identifier: Apache-2.0
// Random problems of ag_gemm with their edges, each with one of its plans; the same on every rank.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/ag_gemm.h"

namespace tilelace::gpu_test {

/// Bounds of what is drawn, so that a check of every element takes a millisecond.
constexpr std::int64_t kMostRows = 1100, kMostCols = 700, kMostK = 2100;
constexpr std::size_t kMostWeights = 2;

struct Case {
  int index = 0;
  Problem problem;
  plan::AgGemmPlan plan;
  bool exact = false;      ///< integers, compared bit by bit; else normal variates and fp64
  bool odd = false;        ///< single calls before and after the pair, so that slots change places
  std::uint64_t seed = 0;  ///< of its data
};

/// Error: usage (a problem that has no plan).
std::vector<Case> draw_cases(int count, int ranks, DType dtype, const plan::GemmMachine& machine,
                             std::uint64_t seed);

/// "push by shard": what names a way of moving rows and cutting tiles.
std::string kind_of(const plan::AgGemmPlan& plan);

/// All plans, by kind_of, fastest prediction first.
using PlansByKind = std::map<std::string, std::vector<plan::AgGemmPlan>>;
PlansByKind plans_by_kind(const Problem& problem, const plan::GemmMachine& machine);

/// Rows of m before each rank's shard, then m.
std::vector<std::int64_t> borders_of(const Problem& problem);
/// The rank whose shard has this row.
int owner_of(const std::vector<std::int64_t>& borders, std::int64_t row);

/// Everything that is needed to make it again.
std::string text_of(const Problem& problem);
std::string text_of(const Case& c);

}  // namespace tilelace::gpu_test
