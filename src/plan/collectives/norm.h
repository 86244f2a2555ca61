// SPDX-License-Identifier: Apache-2.0
// A call of all_reduce_norm, its arguments checked, and how it runs.
#pragma once
#include "plan/collectives/collective.h"
#include "tilelace/all_reduce_norm.h"

namespace tilelace::plan {

constexpr std::string_view kNormName = "all_reduce_norm";
constexpr Index kMostNormCols = 16384;
/// Columns that have a scale of their own.
constexpr Index kNormBlock = 128;

struct NormCall {
  CollectiveCall sum;  ///< the all_reduce in it; says what else all ranks must agree on, too
  Index rows = 0, cols = 0;
  NormQuant quant{};
};

/// Errors: usage, which name the first thing that is wrong with the arguments.
NormCall check_norm(const AllReduceNormArgs&, int rank, int ranks);

/// How much of each tensor there is.
struct NormBytes {
  Index rows = 0;  ///< of x, residual, out, normed
  Index weight = 0;
  Index quantised = 0, scales = 0;
};
NormBytes bytes_of(const NormCall&);

/// Units of a row with a place, in one CTA: whole groups of lines.
Index row_places(const NormCall&);
/// CTAs that have a row together, a chunk each; 1: a chunk is whole rows.
int row_parts(const NormCall&, const CollectivePlan&);
/// Units of a row with a place in each of them.
Index part_places(const NormCall&, const CollectivePlan&);

/// Of a GPU rank: workers are CTAs, a chunk is whole rows, or a part of one. Errors: usage (an
/// option that the call cannot take).
CollectivePlan plan_norm(const NormCall&, const CollectiveMachine&, const CollectiveOptions&);
/// That CTAs of lines or chunks have at most.
constexpr Index kNormThreads = 512;
/// CTAs of chunks between two ranks that stand on a multiprocessor, where a thread has at most
/// kNormUnitsOfTwo units of a row.
constexpr int kNormCtas = 2, kNormUnitsOfTwo = 2;

/// The schedule of a piece, in places of rows.
schedule::Exchange place_norm(const NormCall&, const CollectivePlan&, Index piece);

/// In words, beside the plan.
std::string describe(const NormCall&);

}  // namespace tilelace::plan
