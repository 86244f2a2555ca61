// SPDX-License-Identifier: Apache-2.0
// Walks over tiles, one after the other.
#pragma once
#include "schedule/index.h"

namespace tilelace::schedule {

/// Walks that are searched one by one. Kernels have no more.
constexpr int kFewWalks = 8;

/// The walk of tile t among many, on the host. `first_tile(w)`: of walk w; w == walks: all tiles.
template <class First>
constexpr int walk_of(int walks, int t, First first_tile) {
  int w = 0;
  for (int end = walks - 1; w < end;) {
    const int middle = w + (end - w) / 2;
    if (t < first_tile(middle + 1))
      end = middle;
    else
      w = middle + 1;
  }
  return w;
}

}  // namespace tilelace::schedule
