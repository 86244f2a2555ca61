// SPDX-License-Identifier: Apache-2.0
// Rows that travel in slices of k: all rows' first columns, then the next ones, each with flags of
// its own. A product of whole rows begins when the first slice is there, not the last one.
#pragma once
#include "core/host_device.h"

namespace tilelace::schedule {

struct KSlices {
  int count = 1;
  int steps = 1 << 30;  ///< k-steps of a slice; the last one may have fewer

  [[nodiscard]] TILELACE_HD constexpr int of(int step) const { return step / steps; }
  /// The first step behind the slice that `step` is in.
  [[nodiscard]] TILELACE_HD constexpr int end(int step) const {
    return count == 1 ? steps : (of(step) + 1) * steps;
  }
};

/// At most `wanted` slices, none of them empty. Both at least 1.
constexpr KSlices cut_slices(int k_steps, int wanted) {
  if (wanted <= 1 || k_steps <= 1) return {};
  const int steps = (k_steps + wanted - 1) / wanted;
  const int count = (k_steps + steps - 1) / steps;
  return count == 1 ? KSlices{} : KSlices{count, steps};
}

}  // namespace tilelace::schedule
