// SPDX-License-Identifier: Apache-2.0
// Two warps of the grouped product. One warp describes tiles, for the other warp, which loads their
// operands into the ring in shared memory, and for the warpgroups that multiply.
#pragma once
#include "backend/cuda/kernels/sm90/grouped_deal.h"

namespace tilelace::cuda {

template <class K>
class GroupedLoad {
  using Shared = typename K::Shared;

 public:
  TILELACE_DEVICE GroupedLoad(const GroupedParams& p, Shared& shared)
      : p_(p), shared_(shared), rank_(K::cluster_rank()) {}

  TILELACE_DEVICE void run() {
    for (int i = 0;; ++i) {
      const int at = i % kGroupedSlots;
      ptx::barrier_wait(K::at(&shared_.placed[at]), (i / kGroupedSlots) & 1);
      const GroupedPlace place = shared_.slots[at].place;
      const int weight = shared_.slots[at].weight;
      __syncwarp();  // all lanes have read the slot before one of them loads the tile
      if (place.width == 0) break;
      load(place, weight);
    }
    // This CTA must not exit while others of the cluster may still signal this CTA's barriers.
    if constexpr (K::kCluster > 1)
      for (int i = 0; i < K::kStages; ++i) {
        await_free();
        ring_.advance();
      }
  }

 private:
  TILELACE_DEVICE void await_free() const {
    ptx::barrier_wait(K::at(&shared_.empty[ring_.stage]), ring_.parity ^ 1);
  }

  TILELACE_DEVICE void load(const GroupedPlace& place, int weight) {
    const bool there = place.column < p_.n;  // false: only the cluster's other CTA has columns
    // Each CTA of the cluster loads a part of the rows, for all CTAs of the cluster.
    const int eights = place.width / 8;
    const int first = eights * rank_ / K::kCluster;
    const int mine = eights * (rank_ + 1) / K::kCluster - first;
    const int expected = (there ? K::kWeightBytes : 0) + place.width * 128;
#pragma unroll 1
    for (int k = 0; k < p_.steps; ++k) {
      await_free();
      if (ptx::elect_one()) {
        std::uint8_t* const stage = shared_.ring[ring_.stage];
        const ptx::Shared full = K::at(&shared_.full[ring_.stage]);
        ptx::barrier_expect(full, expected);
        if (there) load_weight(K::at(stage), full, k * kStep, weight);
        if (mine > 0)
          load_rows(K::at(stage) + K::kWeightBytes + first * kAtomBytes, &p_.rows[mine - 1], full,
                    k * kStep, place.row + 8 * first);
      }
      ring_.advance();
    }
  }

  TILELACE_DEVICE void load_weight(ptx::Shared to, ptx::Shared full, int x, int row) const {
    ptx::tensor_load(to, &p_.weight, full, x, row);
    if constexpr (K::kGated) ptx::tensor_load(to + K::kWeightBytes / 2, &p_.up, full, x, row);
  }
  TILELACE_DEVICE static void load_rows(ptx::Shared to, const CUtensorMap* map, ptx::Shared full,
                                        int x, int row) {
    if constexpr (K::kCluster == 1)
      ptx::tensor_load(to, map, full, x, row);
    else
      ptx::tensor_load_multicast(to, map, full, x, row, (1 << K::kCluster) - 1);
  }

  static constexpr int kAtomBytes = 1024;  ///< eight rows of 128 bytes
  const GroupedParams& p_;
  Shared& shared_;
  int rank_;
  typename K::Ring ring_;
};

/// Lists tiles (places, biases and scales) ahead of the warp that loads and the groups that
/// multiply.
template <class K>
class GroupedList {
  using Shared = typename K::Shared;
  using Slot = typename K::Slot;

 public:
  TILELACE_DEVICE GroupedList(const GroupedParams& p, Shared& shared, int lane)
      : p_(p),
        shared_(shared),
        finder_(p, shared.before, lane),
        dealt_(p, shared, lane),
        lane_(lane) {}

  TILELACE_DEVICE void run() {
    int i = 0;
    for (int tile = 0; dealt_.next(tile); ++i) {
      const GroupedTile found = finder_.find(tile);
      const int column = (found.cell.column * K::kCluster + K::cluster_rank()) * K::kColumns;
      place(i, {found.row, found.cell.rows, found.cell.width, column},
            found.expert * p_.weight_rows + column);
      list(shared_.slots[i % kGroupedSlots], found, column);
      arrive(shared_.listed, i);
    }
    for (int last = i + kGroupedGroups; i < last; ++i) {
      place(i, {0, 0, 0, 0}, 0);
      arrive(shared_.listed, i);
    }
  }

 private:
  /// Waits until the i-th tile's slot is free.
  TILELACE_DEVICE void place(int i, const GroupedPlace& where, int weight) const {
    const int at = i % kGroupedSlots;
    if (i >= kGroupedSlots)
      ptx::barrier_wait(K::at(&shared_.done[at]), (i / kGroupedSlots - 1) & 1);
    if (lane_ == 0) {
      shared_.slots[at].place = where;
      shared_.slots[at].weight = weight;
    }
    arrive(shared_.placed, i);
  }
  TILELACE_DEVICE void arrive(const std::uint64_t (&barriers)[kGroupedSlots], int i) const {
    __syncwarp();
    if (lane_ == 0) ptx::barrier_arrive(K::at(&barriers[i % kGroupedSlots]));
  }

  TILELACE_DEVICE void list(Slot& slot, const GroupedTile& tile, int column) const {
    const auto* const bias = static_cast<const typename K::Element*>(p_.bias);
#pragma unroll
    for (int j = lane_; j < K::kWeightRows; j += 32) {
      const int of = column + j % K::kColumns;
      const bool there = bias != nullptr && of < p_.n;
      const int up = j / K::kColumns * p_.bias_up;
      slot.bias[j] =
          there ? static_cast<float>(bias[tile.expert * p_.bias_columns + of * p_.bias_step + up])
                : 0.0F;
    }
    if (p_.scale != nullptr) {
      list_scales(slot, tile);
      return;
    }
#pragma unroll
    for (int j = 0; j < K::kMost / 32; ++j) slot.scale[lane_ + 32 * j] = 1;
  }
  /// Lists the scales of a tile's rows. All loads from one array are in flight together.
  TILELACE_DEVICE void list_scales(Slot& slot, const GroupedTile& tile) const {
    int from[K::kMost / 32];
#pragma unroll
    for (int j = 0; j < K::kMost / 32; ++j) {
      from[j] = tile.row + min(lane_ + 32 * j, tile.cell.rows - 1);
      if (p_.sources != nullptr) from[j] = p_.sources[from[j]];
    }
    float scale[K::kMost / 32];
#pragma unroll
    for (int j = 0; j < K::kMost / 32; ++j) scale[j] = p_.scale[from[j]];
#pragma unroll
    for (int j = 0; j < K::kMost / 32; ++j) slot.scale[lane_ + 32 * j] = scale[j];
  }

  const GroupedParams& p_;
  Shared& shared_;
  TileFinder finder_;
  DealtTiles<K> dealt_;
  int lane_;
};

}  // namespace tilelace::cuda
