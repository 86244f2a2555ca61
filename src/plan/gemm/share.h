// SPDX-License-Identifier: Apache-2.0
// How many CTAs may run on a share of a device (one communicator's SMs), beside waiting kernels of
// other communicators. A cluster of two CTAs needs both SMs of a TPC; larger clusters stay within
// one GPC (docs/decisions/0019). If single CTAs take an SM of every TPC, no cluster of two can
// start, and communicators may wait for each other for ever. So a kernel that waits, or for which
// another kernel waits, has pairs of CTAs, or so few CTAs that each can have a TPC to itself.
#pragma once
#include <algorithm>

namespace tilelace::plan {

/// The largest clusters that always fit within a share.
inline constexpr int kShareCluster = 2;

/// Places of a share, which are its SMs in whole TPCs. Kernels can rely on no other SMs.
constexpr int share_places(int multiprocessors) { return std::max(0, multiprocessors) / 2 * 2; }

/// Whether a kernel of this many CTAs that needs no clusters is launched in clusters of two.
constexpr bool stands_in_pairs(int ctas) { return ctas % 2 == 0; }

/// Places that `ctas` CTAs in clusters of `cluster` (1 or 2) take: one per CTA if paired, else two.
constexpr int taken_places(int ctas, int cluster) {
  return cluster == 2 || stands_in_pairs(ctas) ? ctas : 2 * ctas;
}

/// How many of the `ctas` CTAs of a kernel that needs no clusters fit into `places` places: an even
/// number (in pairs), or at most places / 2 (each with a TPC to itself).
constexpr int standing_ctas(int ctas, int places) {
  if (taken_places(ctas, 1) <= places) return ctas;
  return std::min(ctas - 1, places) / 2 * 2;
}

}  // namespace tilelace::plan
