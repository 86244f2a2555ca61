// SPDX-License-Identifier: Apache-2.0
// Two warps of the grouped product. One warp loads operands into the ring in shared memory; the
// other warp describes tiles for the warpgroups that multiply.
#pragma once
#include "backend/cuda/moe/grouped_deal.h"

namespace tilelace::cuda {

template <class K>
class GroupedLoad {
  using Shared = typename K::Shared;

 public:
  TILELACE_DEVICE GroupedLoad(const GroupedParams& p, Shared& shared, int lane)
      : p_(p),
        shared_(shared),
        finder_(p, shared.before, lane),
        dealt_(p, shared, lane, false),
        rank_(K::cluster_rank()) {}

  TILELACE_DEVICE void run() {
    for (int tile = 0; dealt_.next(tile);) load(finder_.find(tile));
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

  TILELACE_DEVICE void load(const GroupedTile& tile) {
    const int column = (tile.cell.column * K::kCluster + rank_) * K::kColumns;
    const bool there = column < p_.n;  // false: only the cluster's other CTA has columns
    const int weight = tile.expert * p_.weight_rows + column;
    // Each CTA of the cluster loads a part of the rows, for all CTAs of the cluster.
    const int eights = tile.cell.width / 8;
    const int first = eights * rank_ / K::kCluster;
    const int mine = eights * (rank_ + 1) / K::kCluster - first;
    const int expected = (there ? K::kWeightBytes : 0) + tile.cell.width * 128;
#pragma unroll 1
    for (int k = 0; k < p_.steps; ++k) {
      await_free();
      if (ptx::elect_one()) {
        std::uint8_t* const stage = shared_.ring[ring_.stage];
        const ptx::Shared full = K::at(&shared_.full[ring_.stage]);
        ptx::barrier_expect(full, expected);
        if (there) load_weight(K::at(stage), full, k * kStep, weight);
        load_rows(K::at(stage) + K::kWeightBytes + first * kAtomBytes, full, k * kStep,
                  tile.row + 8 * first, mine);
      }
      ring_.advance();
    }
  }

  TILELACE_DEVICE void load_weight(ptx::Shared to, ptx::Shared full, int x, int row) const {
    constexpr int kBox = K::kWeightRows / 2;
    ptx::tensor_load(to, &p_.weight, full, x, row);
    if constexpr (K::kGated)
      ptx::tensor_load(to + kBox * 128, &p_.up, full, x, row);
    else
      ptx::tensor_load(to + kBox * 128, &p_.weight, full, x, row + kBox);
  }
  TILELACE_DEVICE void load_rows(ptx::Shared to, ptx::Shared full, int x, int row,
                                 int eights) const {
#pragma unroll
    for (int i = kRowBoxes - 1; i >= 0; --i) {
      if ((eights >> i & 1) == 0) continue;
      if constexpr (K::kCluster == 1)
        ptx::tensor_load(to, &p_.rows[i], full, x, row);
      else
        ptx::tensor_load_multicast(to, &p_.rows[i], full, x, row, (1 << K::kCluster) - 1);
      to += kAtomBytes << i;
      row += 8 << i;
    }
  }

  static constexpr int kAtomBytes = 1024;  ///< eight rows of 128 bytes
  const GroupedParams& p_;
  Shared& shared_;
  TileFinder finder_;
  DealtTiles<K> dealt_;
  int rank_;
  typename K::Ring ring_;
};

/// Lists tiles (places, biases and scales) ahead of the groups that multiply.
template <class K>
class GroupedList {
  using Shared = typename K::Shared;
  using Slot = typename K::Slot;

 public:
  TILELACE_DEVICE GroupedList(const GroupedParams& p, Shared& shared, int lane)
      : p_(p),
        shared_(shared),
        finder_(p, shared.before, lane),
        dealt_(p, shared, lane, true),
        lane_(lane) {}

  TILELACE_DEVICE void run() {
    int i = 0;
    for (int tile = 0; dealt_.next(tile); ++i) {
      const GroupedTile found = finder_.find(tile);
      const int column = (found.cell.column * K::kCluster + K::cluster_rank()) * K::kColumns;
      Slot& slot = free_slot(i);
      list(slot, found, column);
      announce(slot, i, {found.row, found.cell.rows, found.cell.width, column});
    }
    for (int last = i + kGroupedGroups; i < last; ++i) announce(free_slot(i), i, {0, 0, 0, 0});
  }

 private:
  TILELACE_DEVICE Slot& free_slot(int i) const {
    if (i >= kGroupedSlots)
      ptx::barrier_wait(K::at(&shared_.done[i % kGroupedSlots]), (i / kGroupedSlots - 1) & 1);
    return shared_.slots[i % kGroupedSlots];
  }
  TILELACE_DEVICE void announce(Slot& slot, int i, const int4& where) const {
    if (lane_ == 0) {
      slot.row = where.x;
      slot.rows = where.y;
      slot.width = where.z;
      slot.column = where.w;
    }
    __syncwarp();
    if (lane_ == 0) ptx::barrier_arrive(K::at(&shared_.listed[i % kGroupedSlots]));
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
