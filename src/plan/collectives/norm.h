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
  CollectiveCall sum;  ///< the all_reduce of x, with all that ranks must agree on (see `meaning`)
  Index rows = 0, cols = 0;
  NormQuant quant{};
};

/// Checks the arguments, then makes the call. Errors: usage (the text names the first fault).
NormCall check_norm(const AllReduceNormArgs&, int rank, int ranks);

/// Bytes of each tensor.
struct NormBytes {
  Index rows = 0;  ///< bytes of each of x, residual, out and normed
  Index weight = 0;
  Index quantised = 0, scales = 0;
};
NormBytes bytes_of(const NormCall&);

/// Units (16 bytes) of a row, rounded up to a multiple of kLineGroup.
Index row_places(const NormCall&);
/// Number of CTAs that share a row, one chunk each; 1: a chunk is one or more whole rows.
int row_parts(const NormCall&, const CollectivePlan&);
/// Units of a row that each CTA of the row has, rounded up to a multiple of kLineGroup.
Index part_places(const NormCall&, const CollectivePlan&);

/// On GPU ranks a worker is a CTA. A chunk is whole rows or, if sent as lines (words that carry the
/// call's number), maybe part of a row. Errors: usage (an option that the call cannot have).
CollectivePlan plan_norm(const NormCall&, const CollectiveMachine&, const CollectiveOptions&);
/// The most threads of a CTA that work on rows. One more warp may wait for headers.
constexpr Index kNormThreads = 512;
/// kNormCtas: CTAs per SM if two ranks send chunks and no thread has more than kNormUnitsOfTwo
/// units of a row. Other calls, and calls on a shared device, have one CTA per SM.
constexpr int kNormCtas = 2, kNormUnitsOfTwo = 2;

/// The schedule of one piece of the call. A padded row has row_parts() * part_places() units.
schedule::Exchange place_norm(const NormCall&, const CollectivePlan&, Index piece);

/// The call's shape as a text, to be printed beside its plan.
std::string describe(const NormCall&);

}  // namespace tilelace::plan
