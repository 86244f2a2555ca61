// SPDX-License-Identifier: Apache-2.0
// Warpgroups that multiply in the grouped product. A tile's rows are weight rows, 128 per group;
// its columns are rows of x. Two groups ping-pong: one multiplies, one stores.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/sm90/grouped_shared.h"
#include "backend/cuda/kernels/sm90/stage.h"
#include "wgmma_shapes.h"

namespace tilelace::cuda {

template <class K>
class GroupedMath {
  using Shared = typename K::Shared;
  using Slot = typename K::Slot;
  using Element = typename K::Element;
  static constexpr int kBlocks = 2;                     ///< blocks of 64 rows of the weight
  static constexpr int kHalf = K::kMost / 2;            ///< accumulators of a block
  static constexpr int kOut = K::kGated ? 1 : kBlocks;  ///< blocks of 64 columns of the result

 public:
  TILELACE_DEVICE GroupedMath(const GroupedParams& p, Shared& shared, int group)
      : p_(p), shared_(shared), group_(group), thread_(static_cast<int>(threadIdx.x) & 127) {
    if (group == 1) ring_.skip(p.steps);
  }

  TILELACE_DEVICE void run() {
    for (int i = group_;; i += kGroupedGroups) {
      const int at = i % kGroupedSlots;
      ptx::barrier_wait(K::at(&shared_.listed[at]), (i / kGroupedSlots) & 1);
      const GroupedPlace place = shared_.slots[at].place;
      if (place.width == 0) break;
      // Groups must alternate. A wait for a parity more than a ring round ahead ends too early.
      // stays: no test misses this barrier, which orders no data but keeps parities apart
      if (i > 0) ptx::sync_threads(kTurnBarrier + group_, 256);
      multiply_by<8>(place.width);
      ring_.skip(p_.steps);  // skips the stages of the other group's tile
      // Branches once per tile, since a branch per value would split the code into short pieces.
      if (p_.bias == nullptr && p_.activation == Activation::none && p_.scale == nullptr)
        store<true>(place, shared_.slots[at]);
      else
        store<false>(place, shared_.slots[at]);
      sync_group();  // stays: slots are read by plain loads, which the order check does not see
      if (thread_ == 0) ptx::barrier_arrive(K::at(&shared_.done[at]));
    }
    if (thread_ == 0) ptx::store_wait_read<0>();
  }

 private:
  /// Has a loop for each width, since the width is part of the wgmma instruction's name.
  template <int kWidth>
  TILELACE_DEVICE void multiply_by(int width) {
    if (width == kWidth) {
      multiply<kWidth>();
      return;
    }
    if constexpr (kWidth < K::kMost) multiply_by<kWidth + 8>(width);
  }

  template <int kWidth>
  TILELACE_DEVICE void multiply() {
    bool here = false;
#pragma unroll 1
    for (int left = p_.steps; left > 0; --left) {
      if (!here) ptx::barrier_wait(K::at(&shared_.full[ring_.stage]), ring_.parity);
      const bool first = left == p_.steps;
      typename K::Ring next = ring_;
      next.advance();
      multiply_stage<kWidth>(!first, [&] {
        if (!first) release(ring_.before());
        here = ptx::barrier_test(K::at(&shared_.full[next.stage]), next.parity);
      });
      ring_ = next;
    }
    // stays: this barrier orders no data; it only keeps parities apart
    ptx::arrive_threads(kTurnBarrier + (group_ ^ 1), 256);
    ptx::wgmma_wait<0>();
    pin<kWidth>();
    release(ring_.before());
  }

  /// Multiplies a stage. Calls between() once the previous stage's MMAs have ended. By then half of
  /// this stage's MMAs are issued (all of them if kWidth is small), so the tensor cores never idle.
  template <int kWidth, class Between>
  TILELACE_DEVICE void multiply_stage(bool keep, Between between) {
    constexpr int kSteps = kStep / 16;
    constexpr int kProducts = kBlocks * kSteps;
    constexpr bool kInHalves = kWidth >= 80;
    constexpr int kBetween = kInHalves ? kProducts / 2 : kProducts;
    const ptx::Shared stage = K::at(shared_.ring[ring_.stage]);
    const std::uint64_t weight = ptx::operand(stage);
    const std::uint64_t rows = ptx::operand(stage + K::kWeightBytes);
    pin<kWidth>();
    ptx::wgmma_fence();
#pragma unroll
    for (int at = 0; at < kProducts; ++at) {
      const int i = at / kSteps;
      const int kk = at % kSteps;
      Wgmma<Element, kWidth>::multiply(reinterpret_cast<float(&)[kWidth / 2]>(acc_[i]),
                                       weight + (kChunkBytes / 16) * i + 2 * kk, rows + 2 * kk,
                                       keep || kk != 0);
      if (at + 1 != kBetween) continue;
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      between();
    }
    if (kInHalves) ptx::wgmma_commit();
  }

  /// Keeps the compiler from moving accumulators while MMAs are in flight.
  template <int kWidth>
  TILELACE_DEVICE void pin() {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < kWidth / 2; ++j) ptx::pin(acc_[i][j]);
  }

  /// Tells all CTAs that fill the stage that this group has read it.
  TILELACE_DEVICE void release(int stage) const {
    if (thread_ >= K::kCluster) return;
    if constexpr (K::kCluster > 1)
      ptx::barrier_arrive_at(K::at(&shared_.empty[stage]), thread_);
    else
      ptx::barrier_arrive(K::at(&shared_.empty[stage]));
  }

  /// `kSimple`: there is neither bias nor activation nor scale.
  template <bool kSimple>
  TILELACE_DEVICE void store(const GroupedPlace& place, const Slot& slot) {
    constexpr int kAll = K::kMost / K::kChunkRows * kOut;
    if (thread_ == 0) ptx::store_wait_read<0>();
    sync_group();
#pragma unroll
    for (int at = 0; at < kAll; ++at) {
      const int i = at % kOut;
      const int row = K::kChunkRows * (at / kOut);
      if (row >= place.width) break;
      const ptx::Shared chunk = K::at(shared_.staging[group_][at % kStagedChunks]);
      stage<kSimple>(slot, chunk, i, row, place.width);
      ptx::fence_shared_to_copy();
      // Behind the barrier, the next chunk's place is free. For all stores, as chunks beyond n have
      // none to count.
      if (at > 0 && at + 1 < kAll && thread_ == 0) ptx::store_wait_read<0>();
      sync_group();
      copy_out(place, chunk, place.column + 64 * i, row);
    }
  }

  /// Rounds a chunk of 64 columns and writes it to shared memory. Some of the rows may not have
  /// been computed; nobody reads those.
  template <bool kSimple>
  TILELACE_DEVICE void stage(const Slot& slot, ptx::Shared to, int i, int row, int width) {
    constexpr int kBatch = 4;  // groups of eight rows; more take too many registers
#pragma unroll
    for (int b = 0; b < K::kChunkRows / 8; b += kBatch) {
      if (row + 8 * b >= width) break;
      std::uint32_t words[kBatch / 2][4];
#pragma unroll
      for (int j = 0; j < kBatch; j += 2) {
        float f[8];
        finish<kSimple>(slot, i, row + 8 * (b + j), f);
#pragma unroll
        for (int w = 0; w < 4; ++w) words[j / 2][w] = pack(f[2 * w], f[2 * w + 1], Element{});
      }
#pragma unroll
      for (int j = 0; j < kBatch; j += 2)
        ptx::store_matrices<true>(to + staged_across(b + j, warp(), lane()), words[j / 2]);
    }
  }
  /// A thread's results within sixteen rows: four rows in each of two columns that are eight apart.
  template <bool kSimple>
  TILELACE_DEVICE void finish(const Slot& slot, int i, int row, float (&f)[8]) {
    const float* const bias = slot.bias + 64 * i + 16 * warp() + lane() / 4;
    const float* const acc = acc_[i] + row / 2;
#pragma unroll
    for (int e = 0; e < 8; ++e) f[e] = acc[e];
    if (!kSimple && p_.bias != nullptr)
#pragma unroll
      for (int e = 0; e < 8; ++e) f[e] += bias[4 * (e & 2)];
    if constexpr (K::kGated)
      gate<kSimple>(f, acc_[1] + row / 2, bias + 64);
    else if (!kSimple && p_.activation != Activation::none)
      activate<8>(p_.activation, f);
    if constexpr (!kSimple) {
      const float* const scale = slot.scale + row + 2 * (lane() & 3);
#pragma unroll
      for (int e = 0; e < 8; ++e) f[e] *= scale[(e & 1) + 2 * (e & 4)];
    }
  }
  template <bool kSimple>
  TILELACE_DEVICE void gate(float (&f)[8], const float* up, const float* bias) const {
    const GateForm& g = p_.gate;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float x = f[e] > g.limit ? g.limit : f[e];  // NaN is not clamped
      float y = up[e];
      if (!kSimple && p_.bias != nullptr) y += bias[4 * (e & 2)];
      y = y > g.limit ? g.limit : y < -g.limit ? -g.limit : y;
      f[e] = __fdividef(x, 1.0F + __expf(-g.alpha * x)) * (y + g.plus);
    }
  }

  /// Copies a chunk's rows that exist, from `first` of the tile on, to the caller: eights by TMA,
  /// the last few by threads, since the rows behind them are the next expert's.
  TILELACE_DEVICE void copy_out(const GroupedPlace& place, ptx::Shared from, int column,
                                int first) const {
    const int rows = min(place.rows - first, K::kChunkRows);
    if (column >= p_.n) return;
    if (thread_ == 0) {
      if (rows >= 8) ptx::tensor_store(&p_.results[rows / 8 - 1], from, column, place.row + first);
      ptx::store_commit();
    }
    const int row = (rows & ~7) + thread_ / 8;
    const int eight = thread_ % 8;
    if (row >= rows || column + 8 * eight >= p_.n) return;
    const uint4 v = ptx::load_shared_16(from + row * 128 + ((eight ^ (row & 7)) << 4));
    auto* const to = static_cast<Element*>(p_.out) +
                     (place.row + first + row) * std::int64_t{p_.n} + column + 8 * eight;
    __stcg(reinterpret_cast<uint4*>(to), v);
  }

  /// This warp's number in the group. It is recomputed on each call, to save a register.
  [[nodiscard]] TILELACE_DEVICE static int warp() { return (ptx::thread_again() & 127) / 32; }
  [[nodiscard]] TILELACE_DEVICE static int lane() { return ptx::thread_again() & 31; }
  TILELACE_DEVICE void sync_group() const { ptx::sync_threads(kGroupBarrier + group_, 128); }

  const GroupedParams& p_;
  Shared& shared_;
  int group_, thread_;
  typename K::Ring ring_;
  float acc_[kBlocks][kHalf];
};

}  // namespace tilelace::cuda
