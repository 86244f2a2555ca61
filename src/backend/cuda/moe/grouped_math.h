// SPDX-License-Identifier: Apache-2.0
// The warpgroups of the grouped product that multiply, in turns: 128 rows of the weight down, the
// tile's rows across. While one multiplies, the other stores.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/kernels/sm90/stage.h"
#include "backend/cuda/moe/grouped_shared.h"
#include "wgmma_shapes.h"

namespace tilelace::cuda {

template <class K>
class GroupedMath {
  using Shared = typename K::Shared;
  using Slot = typename K::Slot;
  using Element = typename K::Element;
  static constexpr int kBlocks = 2;           ///< of 64 rows of the weight
  static constexpr int kHalf = K::kMost / 2;  ///< accumulators of a block
  static constexpr int kTogether = 64;        ///< rows that are staged at once

 public:
  TILELACE_DEVICE GroupedMath(const GroupedParams& p, Shared& shared, int group)
      : p_(p), shared_(shared), group_(group), thread_(static_cast<int>(threadIdx.x) & 127) {
    if (K::kTurns && group == 1) ring_.skip(p.steps);
  }

  TILELACE_DEVICE void run() {
    constexpr int kTaken = kGroupedGroups / K::kReaders;
    for (int i = group_ % kTaken;; i += kTaken) {
      const int at = i % kGroupedSlots;
      ptx::barrier_wait(K::at(&shared_.listed[at]), (i / kGroupedSlots) & 1);
      const int width = shared_.slots[at].width;
      if (width == 0) return;
      // Turns are also needed because a wait for a parity more than one round ahead would return.
      // stays: turns keep parities apart
      if (K::kTurns && i > 0) ptx::sync_threads(kTurnBarrier + group_, 256);
      multiply_by<8>(width);
      if (K::kTurns) ring_.skip(p_.steps);  // the other group's
      store(shared_.slots[at]);
      sync_group();
      if (thread_ == 0) ptx::barrier_arrive(K::at(&shared_.done[at]));
    }
  }

 private:
  /// One loop a width: an instruction's width is part of it.
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
    // stays: turns keep parities apart
    if (K::kTurns) ptx::arrive_threads(kTurnBarrier + (group_ ^ 1), 256);
    ptx::wgmma_wait<0>();
    pin<kWidth>();
    release(ring_.before());
  }

  /// `between`: work once the products of the stage before are done. Where a stage has enough of
  /// them, half of this stage's are in flight then: tensor cores never idle.
  template <int kWidth, class Between>
  TILELACE_DEVICE void multiply_stage(bool keep, Between between) {
    constexpr int kSteps = kStep / 16;
    constexpr int kProducts = kBlocks * kSteps;
    constexpr bool kInHalves = kWidth >= 80;
    constexpr int kBetween = kInHalves ? kProducts / 2 : kProducts;
    const ptx::Shared stage = K::at(shared_.ring[ring_.stage]);
    const std::uint64_t weight = ptx::operand(stage + first_block() * kChunkBytes);
    const std::uint64_t rows = ptx::operand(stage + K::kWeightBytes);
    pin<kWidth>();
    ptx::wgmma_fence();
#pragma unroll
    for (int at = 0; at < kProducts; ++at) {
      const int i = at / kSteps;
      const int kk = at % kSteps;
      Wgmma<Element, kWidth>::multiply(reinterpret_cast<float(&)[kWidth / 2]>(acc_[i]),
                                       weight + (kChunkBytes / 16) * kApart * i + 2 * kk, rows + 2 * kk,
                                       keep || kk != 0);
      if (at + 1 != kBetween) continue;
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      between();
    }
    if (kInHalves) ptx::wgmma_commit();
  }

  /// Keeps the compiler from moving accumulators while products are in flight.
  template <int kWidth>
  TILELACE_DEVICE void pin() {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
#pragma unroll
      for (int j = 0; j < kWidth / 2; ++j) ptx::pin(acc_[i][j]);
  }

  /// The first of this group's blocks of 64 rows of the weight, and how far apart they are.
  [[nodiscard]] TILELACE_DEVICE int first_block() const {
    return K::kTurns ? 0 : K::kGated ? group_ : kBlocks * group_;
  }
  static constexpr int kApart = !K::kTurns && K::kGated ? kGroupedGroups : 1;

  /// This group has read the stage: says so to all that fill it.
  TILELACE_DEVICE void release(int stage) const {
    if (thread_ >= K::kCluster) return;
    if constexpr (K::kCluster > 1)
      ptx::barrier_arrive_at(K::at(&shared_.empty[stage]), thread_);
    else
      ptx::barrier_arrive(K::at(&shared_.empty[stage]));
  }

  TILELACE_DEVICE void store(const Slot& slot) {
    constexpr int kOut = K::kGated ? 1 : kBlocks;
    const int lane = ptx::thread_again() & 31;
    const int warp = (ptx::thread_again() & 127) / 32;
#pragma unroll
    for (int i = 0; i < kOut; ++i)
#pragma unroll
      for (int c = 0; c < K::kMost / kTogether; ++c) {
        if (kTogether * c >= slot.width) break;
        const ptx::Shared chunk = K::at(shared_.staging[group_][K::kStaging > 1 ? chunk_ : 0]);
        chunk_ ^= 1;
        if (K::kStaging == 1) sync_group();  // else: behind the chunk between
        stage(slot, chunk, i, c, warp, lane);
        sync_group();
        copy_out(slot, chunk, i, c);
      }
  }

  /// Rounds 64 rows of 64 columns into shared memory.
  TILELACE_DEVICE void stage(const Slot& slot, ptx::Shared to, int i, int c, int warp, int lane) {
    const float* const bias = slot.bias + 64 * (first_block() + kApart * i) + 16 * warp + lane / 4;
    const float low = bias[0];
    const float high = bias[8];
#pragma unroll
    for (int j = 0; j < kTogether / 8; j += 2) {
      if (kTogether * c + 8 * j >= slot.width) break;
      float f[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) f[e] = acc_[i][32 * c + 4 * j + e] + ((e & 2) != 0 ? high : low);
      if constexpr (K::kGated)
        gate(f, acc_[1] + 32 * c + 4 * j, bias[64 * kApart], bias[64 * kApart + 8]);
      else if (p_.activation != Activation::none)
        activate<8>(p_.activation, f);
      const float* const scale = slot.scale + kTogether * c + 8 * j + 2 * (lane & 3);
#pragma unroll
      for (int e = 0; e < 8; ++e) f[e] *= scale[(e & 1) + 2 * (e & 4)];
      const std::uint32_t r[4] = {pack(f[0], f[1], Element{}), pack(f[2], f[3], Element{}),
                                  pack(f[4], f[5], Element{}), pack(f[6], f[7], Element{})};
      ptx::store_matrices<true>(to + staged_across(j, warp, lane), r);
    }
  }
  TILELACE_DEVICE void gate(float (&f)[8], const float* up, float low, float high) const {
    const GateForm& g = p_.gate;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float x = f[e] > g.limit ? g.limit : f[e];  // NaN stays
      float y = up[e] + ((e & 2) != 0 ? high : low);
      y = y > g.limit ? g.limit : y < -g.limit ? -g.limit : y;
      f[e] = __fdividef(x, 1.0F + __expf(-g.alpha * x)) * (y + g.plus);
    }
  }

  /// Staged results that exist, 16 bytes a thread, whole lines.
  TILELACE_DEVICE void copy_out(const Slot& slot, ptx::Shared from, int i, int c) const {
    const int eight = thread_ % 8;
    const int column = slot.column + 64 * (first_block() + i) + 8 * eight;
    if (column >= p_.n) return;
    auto* const out = static_cast<Element*>(p_.out) + column;
#pragma unroll
    for (int u = 0; u < kTogether / 16; ++u) {
      const int token = thread_ / 8 + 16 * u;
      const int row = kTogether * c + token;
      if (row >= slot.rows) break;
      *reinterpret_cast<uint4*>(out + std::int64_t{slot.row + row} * p_.n) =
          ptx::load_shared_16(from + token * 128 + ((eight ^ (token & 7)) << 4));
    }
  }

  TILELACE_DEVICE void sync_group() const { ptx::sync_threads(kGroupBarrier + group_, 128); }

  const GroupedParams& p_;
  Shared& shared_;
  int group_, thread_;
  typename K::Ring ring_;
  int chunk_ = 0;
  float acc_[kBlocks][kHalf];
};

}  // namespace tilelace::cuda
