// SPDX-License-Identifier: Apache-2.0
// Loads of tokens that lie in sections, such as shards. A section's tiles begin at its first row.
#pragma once
#include "backend/cuda/device/trace.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"

namespace tilelace::cuda {

/// In all functions `first` is the first token that a CTA loads, counted in the tile's section.
template <class Body, class Params>
class SectionTokens {
 public:
  TILELACE_DEVICE SectionTokens(const Params& p, const typename Body::Place& place)
      : p_(p), place_(place) {}

  [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell cell, int first) const {
    return Body::Tail::expected_bytes(place_, left(cell, first));
  }
  /// The map to load from: `all` for a whole slice, a tail for a partial one, null beyond the end.
  [[nodiscard]] TILELACE_DEVICE const CUtensorMap* map(const CUtensorMap* all,
                                                       schedule::GemmCell cell, int first) const {
    const int tail = max(p_.work.order.tail(cell.section), 0);  // without a tail, map 0 is not used
    return Body::Tail::map(all, p_.tail + tail, left(cell, first));
  }
  [[nodiscard]] TILELACE_DEVICE TailSource source(schedule::GemmCell cell, int first) const {
    return {map(Body::tokens(p_), cell, first), p_.work.order.begin(cell.section) + first};
  }

 private:
  /// Tokens from `first` to the section's end, rounded up to whole slices if there is no tail map.
  [[nodiscard]] TILELACE_DEVICE int left(schedule::GemmCell cell, int first) const {
    const int n = p_.work.order.end(cell.section) - p_.work.order.begin(cell.section) - first;
    if (p_.work.order.tail(cell.section) >= 0) return n;
    return (n + Body::kTokenSlice - 1) & -Body::kTokenSlice;  // slice: a power of two; n may be < 0
  }

  const Params& p_;
  typename Body::Place place_;
};

}  // namespace tilelace::cuda
