// SPDX-License-Identifier: Apache-2.0
// A call of all_reduce_norm: its checked arguments and its plan.
#pragma once
#include "plan/collectives/collective.h"
#include "tilelace/all_reduce_norm.h"

namespace tilelace::plan {

constexpr std::string_view kNormName = "all_reduce_norm";
constexpr Index kMostNormCols = 16384;
/// Columns that share a scale (NormQuant::block).
constexpr Index kNormBlock = 128;

struct NormCall {
  CollectiveCall sum;  ///< the all_reduce inside; also holds all that ranks must agree on
  Index rows = 0, cols = 0;
  NormQuant quant{};
};

/// Makes the call from arguments, after checking them. Errors: usage (names the first fault).
NormCall check_norm(const AllReduceNormArgs&, int rank, int ranks);

/// Bytes of each tensor.
struct NormBytes {
  Index rows = 0;  ///< of x, residual, out or normed
  Index weight = 0;
  Index quantised = 0, scales = 0;
};
NormBytes bytes_of(const NormCall&);

/// Units of a row, rounded up to whole groups (kLineGroup).
Index row_places(const NormCall&);
/// Number of CTAs that share a row, with one chunk each; 1: a chunk is one or more whole rows.
int row_parts(const NormCall&, const CollectivePlan&);
/// Units of a row for each CTA that shares it, rounded up to whole groups.
Index part_places(const NormCall&, const CollectivePlan&);

/// On GPU ranks workers are CTAs, and a chunk is whole rows (with lines it may be part of a row).
/// Errors: usage (an option that is not possible for the call).
CollectivePlan plan_norm(const NormCall&, const CollectiveMachine&, const CollectiveOptions&);
/// The most threads of a CTA, for lines and for chunks.
constexpr Index kNormThreads = 512;
/// CTAs per SM in calls by chunks between two ranks if no thread has more than kNormUnitsOfTwo
/// units of a row. Other calls, and calls on a shared device, have one CTA per SM.
constexpr int kNormCtas = 2, kNormUnitsOfTwo = 2;

/// The schedule of one piece. A row counts as row_parts() * part_places() units, with its padding.
schedule::Exchange place_norm(const NormCall&, const CollectivePlan&, Index piece);

/// The call's shape as a text, to be printed beside its plan.
std::string describe(const NormCall&);

}  // namespace tilelace::plan
