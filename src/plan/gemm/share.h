// SPDX-License-Identifier: Apache-2.0
// How many CTAs may run on a share of a device, beside waiting kernels of other communicators. A
// cluster of two CTAs needs both SMs of a TPC; larger clusters stay within one GPC
// (docs/decisions/0019). If single CTAs take an SM of every TPC, no pair can start, and two
// communicators wait for each other's ranks for ever. So kernels that wait, or that others wait
// for, have either pairs of CTAs or so few CTAs that each can have a TPC.
#pragma once
#include <algorithm>

namespace tilelace::plan {

/// The largest clusters that always fit within a share.
inline constexpr int kShareCluster = 2;

/// SMs of a share that kernels can rely on: those of whole TPCs.
constexpr int share_places(int multiprocessors) { return std::max(0, multiprocessors) / 2 * 2; }

/// Whether this many CTAs, of a kernel that needs no clusters, are launched as clusters of two.
constexpr bool stands_in_pairs(int ctas) { return ctas % 2 == 0; }

/// SMs that these CTAs, in clusters of `cluster` (1 or 2), may make useless for pairs.
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
