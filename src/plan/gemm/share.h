// SPDX-License-Identifier: Apache-2.0
// Where CTAs stand on a share of a device, beside kernels of other communicators that wait for
// peers. A pair (a cluster of two) stands on the two multiprocessors of one TPC, larger clusters
// within one GPC (docs/decisions/0019). CTAs that stand one by one may leave pairs no whole
// TPC, and two communicators then wait for each other's ranks for ever. So all that waits, or is
// waited for, is counted by TPCs: pairs, or few enough CTAs that each may have a TPC.
#pragma once
#include <algorithm>

namespace tilelace::plan {

/// The largest clusters that always find their places within a share.
inline constexpr int kShareCluster = 2;

/// Multiprocessors of a share that can be counted on: whole TPCs.
constexpr int share_places(int multiprocessors) { return std::max(0, multiprocessors) / 2 * 2; }

/// Whether so many CTAs of no cluster are launched two by two.
constexpr bool stands_in_pairs(int ctas) { return ctas % 2 == 0; }

/// Multiprocessors that CTAs of clusters of `cluster` (1 or 2) may keep from pairs.
constexpr int taken_places(int ctas, int cluster) {
  return cluster == 2 || stands_in_pairs(ctas) ? ctas : 2 * ctas;
}

/// As many of so many CTAs of no cluster as `places` hold: an even number, or at most half of them.
constexpr int standing_ctas(int ctas, int places) {
  if (taken_places(ctas, 1) <= places) return ctas;
  return std::min(ctas - 1, places) / 2 * 2;
}

}  // namespace tilelace::plan
