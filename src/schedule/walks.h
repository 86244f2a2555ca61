// SPDX-License-Identifier: Apache-2.0
// Finds the walk that contains a given tile, in an order of several successive walks.
#pragma once
#include "schedule/index.h"

namespace tilelace::schedule {

/// Orders of up to this many sections, as kernels have, search for a tile's walk linearly.
constexpr int kFewWalks = 8;

/// Finds the walk that contains tile t by bisection. first_tile(walks) is the number of tiles.
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
