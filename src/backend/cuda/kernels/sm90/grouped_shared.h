// SPDX-License-Identifier: Apache-2.0
// Shared memory of a CTA of the grouped product: a ring of operands, staged results, slots that
// describe tiles, and the number at which each expert's tiles begin.
#pragma once
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/kernels/sm90/grouped.h"
#include "backend/cuda/kernels/sm90/ring.h"

namespace tilelace::cuda {

// Just enough to hide listing: tiles that are taken early leave other clusters idle at the end.
constexpr int kGroupedSlots = 3;  ///< tiles that are listed and not yet stored
constexpr int kDealt = 1;         ///< the most tiles dealt to a cluster before they are listed
constexpr int kStagedChunks = 2;  ///< of a group: one is filled while the other is stored

/// Where a tile is.
struct alignas(16) GroupedPlace {
  int row;     ///< the tile's first row, among all experts' rows
  int rows;    ///< rows of the tile that exist
  int width;   ///< rows that are computed; 0: no more tiles
  int column;  ///< the tile's first column, in the result
};

/// The kernel of a tile shape and element type. If gated, a gate and an up column give one result.
template <class E, bool kIsGated, int kShape>
struct GroupedKernel {
  using Element = E;
  static constexpr bool kGated = kIsGated;
  static constexpr plan::GroupedShape kForm = plan::kSm90GroupedShapes[kShape];
  static constexpr int kMost = kForm.most;
  static constexpr int kWeightRows = kForm.weight_rows;
  static constexpr int kWeightBytes = kWeightRows * 128;
  static constexpr int kCluster = kForm.cluster;
  static constexpr int kStages = kForm.stages;
  static constexpr int kChunkRows = kForm.chunk_rows;
  static constexpr int kColumns = kGated ? kWeightRows / 2 : kWeightRows;  ///< columns of a CTA
  static constexpr int kStageBytes = kWeightBytes + kMost * 128;
  static constexpr int kRowMaps = row_maps(kForm);
  static constexpr int kResultMaps = result_maps(kForm);
  static_assert(kMost % kChunkRows == 0 && kRowMaps <= kRowBoxes && kResultMaps <= kRowBoxes);

  /// What those who load, multiply and store must know about a tile.
  struct Slot {
    GroupedPlace place;
    int weight;  ///< first row of the tile's weight, in the map of the weights
    float bias[kWeightRows];
    float scale[kMost];
  };
  struct Shared {
    std::uint8_t ring[kStages][kStageBytes];
    std::uint8_t staging[kGroupedGroups][kStagedChunks][kChunkRows * 128];
    Slot slots[kGroupedSlots];
    std::uint64_t full[kStages], empty[kStages];
    std::uint64_t placed[kGroupedSlots];  ///< a slot has all but biases and scales
    std::uint64_t listed[kGroupedSlots], done[kGroupedSlots];
    std::uint64_t given[kDealt], taken[kDealt];  ///< `taken`: in the cluster's first CTA
    int tile[kDealt];                            ///< dealt to the cluster
    int before[plan::kMostMoeExperts + 1];       ///< [e]: number of tiles of all experts before e
  };
  static_assert(sizeof(Shared) <= 232448);
  using Ring = cuda::Ring<kStages>;

  TILELACE_DEVICE static ptx::Shared at(const void* shared) { return ptx::shared_address(shared); }
  TILELACE_DEVICE static int cluster_rank() {
    return kCluster > 1 ? static_cast<int>(blockIdx.x) % kCluster : 0;
  }
  TILELACE_DEVICE static int worker() { return static_cast<int>(blockIdx.x) / kCluster; }
  TILELACE_DEVICE static int workers() { return static_cast<int>(gridDim.x) / kCluster; }
};

/// A tile of the whole product.
struct GroupedTile {
  int expert;
  int row;  ///< the tile's first row, among all experts' rows
  schedule::GroupedCell cell;
};

/// Finds tiles by number, which must increase from call to call. All lanes of a warp call it.
class TileFinder {
 public:
  TILELACE_DEVICE TileFinder(const GroupedParams& p, const int* before, int lane)
      : p_(p), before_(before), lane_(lane) {}

  TILELACE_DEVICE GroupedTile find(int tile) {
    for (bool on = true; on;) {
      const int next = expert_ + 1 + lane_;
      const unsigned passed = __ballot_sync(~0U, next <= p_.experts && before_[next] <= tile);
      expert_ += __popc(passed);
      on = passed == ~0U;
    }
    const int begin = p_.begins[expert_];
    const int rows = p_.begins[expert_ + 1] - begin;
    const auto cell = p_.tiles.cell(rows, tile - before_[expert_]);
    return {expert_, begin + cell.row, cell};
  }

 private:
  const GroupedParams& p_;
  const int* before_;
  int lane_;
  int expert_ = 0;
};

/// Sets before[e] for e <= experts to the number of tiles before expert e. All threads call it.
TILELACE_DEVICE void count_tiles(const GroupedParams& p, int* before) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < p.experts; e += kGroupedThreads)
    before[e] = p.tiles.tiles(p.begins[e + 1] - p.begins[e]);
  __syncthreads();
  if (thread >= 32) return;
  const int each = (p.experts + 31) / 32;  // number of consecutive experts per lane
  const int first = thread * each;
  const int last = min(first + each, p.experts);
  int mine = 0;
  for (int e = first; e < last; ++e) mine += before[e];
  int through = mine;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int other = __shfl_up_sync(~0U, through, by);
    if (thread >= by) through += other;
  }
  int sum = through - mine;
  for (int e = first; e < last; ++e) {
    const int own = before[e];
    before[e] = sum;
    sum += own;
  }
  if (thread == 31) before[p.experts] = through;
}

}  // namespace tilelace::cuda
