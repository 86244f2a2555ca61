// SPDX-License-Identifier: Apache-2.0
// Where CTAs run on a share of a device, beside waiting kernels of other communicators. A cluster
// of two runs on the two SMs of one TPC, larger clusters within one GPC (docs/decisions/0019).
// Single CTAs may leave pairs no whole TPC, and two communicators then wait for each other's ranks
// for ever. So all kernels that wait, or are waited for, are counted by TPCs: pairs, or few enough
// CTAs that each can have a TPC.
#pragma once
#include <algorithm>

namespace tilelace::plan {

/// The largest clusters that always fit within a share.
inline constexpr int kShareCluster = 2;

/// SMs of a share that can be relied on: whole TPCs.
constexpr int share_places(int multiprocessors) { return std::max(0, multiprocessors) / 2 * 2; }

/// Whether this many unclustered CTAs are launched in pairs.
constexpr bool stands_in_pairs(int ctas) { return ctas % 2 == 0; }

/// SMs that CTAs in clusters of `cluster` (1 or 2) may deny to pairs.
constexpr int taken_places(int ctas, int cluster) {
  return cluster == 2 || stands_in_pairs(ctas) ? ctas : 2 * ctas;
}

/// The most unclustered CTAs (<= ctas) that `places` can hold: an even number, or at most places /
/// 2.
constexpr int standing_ctas(int ctas, int places) {
  if (taken_places(ctas, 1) <= places) return ctas;
  return std::min(ctas - 1, places) / 2 * 2;
}

}  // namespace tilelace::plan
