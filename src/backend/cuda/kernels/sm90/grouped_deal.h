// SPDX-License-Identifier: Apache-2.0
// Deals the tiles of a grouped product to clusters, in order: who is done first takes the next. So
// tiles that share operands run at about the same time, and find them in L2. In fixed turns,
// clusters drift apart, and operands are read from memory again.
#pragma once
#include "backend/cuda/kernels/sm90/grouped_shared.h"
#include "comm/cuda_atomics.h"

namespace tilelace::cuda {

/// Runs in one thread of each cluster's first CTA, ahead of the warps that list the tiles.
template <class K>
class GroupedDeal {
 public:
  TILELACE_DEVICE GroupedDeal(const GroupedParams& p, typename K::Shared& shared)
      : p_(p), shared_(shared), all_(shared.before[p.experts]), workers_(K::workers()) {}

  TILELACE_DEVICE void run() {
    int tile = K::worker();
    for (int i = 0;; ++i) {
      const int at = i % kDealt;
      if (i >= kDealt) ptx::barrier_wait(K::at(&shared_.taken[at]), (i / kDealt - 1) & 1);
      if (i > 0) tile = after(tile);
      give(at, tile);
      if (tile >= all_) return;
    }
  }

 private:
  /// A worker's first tile is its number. Each worker draws once in vain, so the number of draws is
  /// known, and the last one sets the word to 0.
  [[nodiscard]] TILELACE_DEVICE int after(int tile) const {
    if (p_.word == nullptr || all_ <= workers_) return tile + workers_;
    return workers_ + static_cast<int>(comm::CudaDeviceAtomics::next(p_.word, all_ - 1));
  }
  TILELACE_DEVICE void give(int at, int tile) const {
    if constexpr (K::kCluster == 1) {
      shared_.tile[at] = tile;
      ptx::barrier_arrive(K::at(&shared_.given[at]));
    } else {
#pragma unroll
      for (int cta = 0; cta < K::kCluster; ++cta)
        ptx::send_word(K::at(&shared_.tile[at]), K::at(&shared_.given[at]), cta, tile);
    }
  }

  const GroupedParams& p_;
  typename K::Shared& shared_;
  int all_, workers_;
};

/// The tiles that are dealt to this cluster, for one warp of each CTA.
template <class K>
class DealtTiles {
 public:
  TILELACE_DEVICE DealtTiles(const GroupedParams& p, typename K::Shared& shared, int lane)
      : shared_(shared), all_(shared.before[p.experts]), lane_(lane) {}

  /// The next tile, if it is one of all. All lanes call it.
  [[nodiscard]] TILELACE_DEVICE bool next(int& tile) {
    const int at = i_ % kDealt;
    if (K::kCluster > 1 && lane_ == 0) ptx::barrier_expect(K::at(&shared_.given[at]), sizeof(int));
    ptx::barrier_wait(K::at(&shared_.given[at]), (i_ / kDealt) & 1);
    ++i_;
    tile = shared_.tile[at];
    if (tile >= all_) return false;  // nobody awaits this one, and the first CTA may have ended
    __syncwarp();
    if (lane_ == 0) take(at);
    return true;
  }

 private:
  TILELACE_DEVICE void take(int at) const {
    if constexpr (K::kCluster == 1)
      ptx::barrier_arrive(K::at(&shared_.taken[at]));
    else
      // stays: numbers are read by plain loads, which the order check does not see
      ptx::barrier_arrive_at(K::at(&shared_.taken[at]), 0);
  }

  typename K::Shared& shared_;
  int all_, lane_, i_ = 0;
};

}  // namespace tilelace::cuda
