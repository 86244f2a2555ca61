// SPDX-License-Identifier: Apache-2.0
// The norm of rows by a CTA (tilelace/all_reduce_norm.h says what it is, bit for bit).
#pragma once
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/device/async_copy.h"
#include "backend/cuda/device/e4m3.h"
#include "backend/cuda/device/reductions.h"
#include "core/e4m3.h"
#include "core/rounded.h"

namespace tilelace::cuda {

/// Sums of warps' units, and largest values of warps, twice: who is late still reads those of the
/// row before.
constexpr int kNormGroups = 64, kNormShared = 2 * (kNormGroups + 32);
/// Units that threads keep there, each its own: what is normed and, where there is room, weights.
template <int kUnits>
constexpr int kNormKept = static_cast<int>(plan::kNormThreads) * (kUnits == 4 ? 4 : 2 * kUnits);

namespace detail {

TILELACE_DEVICE float tree_of_warp(float v) {
#pragma unroll
  for (int bit = 1; bit < 32; bit *= 2) v = rounded::plus(v, __shfl_xor_sync(~0U, v, bit));
  return v;
}
template <int kLanes>
TILELACE_DEVICE float most_of(float v) {
#pragma unroll
  for (int bit = 1; bit < kLanes; bit *= 2) v = fmaxf(v, __shfl_xor_sync(~0U, v, bit));
  return v;
}
TILELACE_DEVICE float scale_of(float most) {
  return fmaxf(rounded::over(most, kLargestE4m3), kLeastScale);
}

}  // namespace detail

/// What a thread has of a row: units thread, thread + threads, ... All of a CTA's threads call all
/// of it; those from `threads` on have no units. Between put_squares and finish the CTA meets.
template <class Element, int kUnits>
class RowNorm {
  using Lanes = detail::FloatLanes<Element>;
  static constexpr int kStep = static_cast<int>(plan::kNormThreads);
  static constexpr bool kKeepsWeight = kUnits < 4;
  /// Units whose steps go side by side.
  static constexpr int kStraight = kUnits < 4 ? kUnits : 1;

 public:
  TILELACE_DEVICE RowNorm(const NormParams& p, float* shared, uint4* kept, int threads)
      : p_(p), shared_(shared), h_(kept), threads_(threads) {}

  [[nodiscard]] TILELACE_DEVICE int unit(int k) const { return thread() + k * threads_; }
  [[nodiscard]] TILELACE_DEVICE bool has(int k) const {
    return thread() < threads_ && unit(k) < p_.row_units;
  }

  /// Before anything is awaited; is there, as a row's residual, after settle.
  TILELACE_DEVICE void load_weight() {
    if (kKeepsWeight)
#pragma unroll
      for (int k = 0; k < kUnits; ++k)
        if (has(k)) copy_later(&h(kUnits + k), p_.weight + unit(k));
    if (p_.quant == NormQuant::given) given_ = rounded::over(1.0F, __ldcg(p_.scales));
  }
  TILELACE_DEVICE void load_residual(std::int64_t row) {
    if (p_.residual == nullptr) return;
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k)
      if (has(k)) copy_later(&h(k), p_.residual + row * p_.row_units + unit(k));
  }
  TILELACE_DEVICE static void settle() { await_copies(); }
  /// Of a unit that this thread has.
  TILELACE_DEVICE void take_sum(int k, const uint4& sum) {
    if (p_.residual == nullptr) {
      h(k) = sum;
      return;
    }
    float f[8], more[8];
    Lanes::read(sum, f);
    Lanes::read(h(k), more);
#pragma unroll
    for (int i = 0; i < 8; ++i) f[i] = rounded::plus(f[i], more[i]);
    h(k) = Lanes::rounded(f);
  }

  TILELACE_DEVICE void put_squares() {
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k) {
      const float sum = detail::tree_of_warp(has(k) ? squares(h(k)) : 0.0F);
      if (lane() == 0 && thread() < threads_ && unit(k) < p_.row_places)
        shared_[turn_ * kNormGroups + unit(k) / 32] = sum;
    }
  }

  TILELACE_DEVICE void finish(std::int64_t row) {
    const float root = root_of_squares();
    if (p_.quant == NormQuant::token) find_scale(row, root);
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k) {
      float v[8];
      value(k, root, v);
      const std::int64_t at = row * p_.row_units + unit(k);
      const float inverse = inverse_for(k, at, v);
      if (!has(k)) continue;
      if (p_.out != nullptr) p_.out[at] = h(k);
      if (p_.normed != nullptr) p_.normed[at] = Lanes::rounded(v);
      if (p_.quant != NormQuant::none) p_.quantised[at] = quantised(v, inverse);
    }
    turn_ ^= 1;
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE static int lane() { return thread() & 31; }
  /// This thread's, of a unit.
  TILELACE_DEVICE uint4& h(int k) const { return h_[k * kStep + thread()]; }

  TILELACE_DEVICE static float squares(const uint4& h) {
    float f[8];
    Lanes::read(h, f);
    float sum = rounded::times(f[0], f[0]);
#pragma unroll
    for (int i = 1; i < 8; ++i) sum = rounded::plus(sum, rounded::times(f[i], f[i]));
    return sum;
  }

  /// Zeros beyond the row change nothing.
  TILELACE_DEVICE float root_of_squares() const {
    const float* const sums = shared_ + turn_ * kNormGroups;
    const int groups = p_.row_places / 32;
    float sum = detail::tree_of_warp(lane() < groups ? sums[lane()] : 0.0F);
    if (groups > 32)
      sum =
          rounded::plus(sum, detail::tree_of_warp(lane() + 32 < groups ? sums[lane() + 32] : 0.0F));
    const float mean = rounded::over(sum, static_cast<float>(p_.row_units * 8));
    return rounded::over(1.0F, rounded::root(rounded::plus(mean, p_.eps)));
  }

  TILELACE_DEVICE void value(int k, float root, float (&v)[8]) const {
    float weight[8] = {};
#pragma unroll
    for (float& f : v) f = 0;
    if (!has(k)) return;
    Lanes::read(h(k), v);
    Lanes::read(kKeepsWeight ? h(kUnits + k) : __ldcg(p_.weight + unit(k)), weight);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = rounded::times(rounded::times(v[i], root), weight[i]);
  }
  TILELACE_DEVICE static float most_in(const float (&v)[8]) {
    float most = 0;
#pragma unroll
    for (const float f : v) most = fmaxf(most, fabsf(f));
    return most;
  }

  /// Of the row: the CTA meets once more.
  TILELACE_DEVICE void find_scale(std::int64_t row, float root) {
    float most = 0;
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k) {
      float v[8];
      value(k, root, v);
      most = fmaxf(most, most_in(v));
    }
    most = detail::most_of<32>(most);
    float* const of_warps = shared_ + 2 * kNormGroups + turn_ * 32;
    if (lane() == 0 && thread() < threads_) of_warps[thread() / 32] = most;
    __syncthreads();
    const float scale =
        detail::scale_of(detail::most_of<32>(lane() < threads_ / 32 ? of_warps[lane()] : 0.0F));
    given_ = rounded::over(1.0F, scale);
    if (thread() == 0) p_.scales[row] = scale;
  }
  TILELACE_DEVICE float inverse_for(int k, std::int64_t at, const float (&v)[8]) const {
    if (p_.quant != NormQuant::block) return given_;
    constexpr int kUnitsOfBlock = static_cast<int>(plan::kNormBlock) / 8;
    const float scale = detail::scale_of(detail::most_of<kUnitsOfBlock>(most_in(v)));
    if (has(k) && lane() % kUnitsOfBlock == 0) p_.scales[at / kUnitsOfBlock] = scale;
    return rounded::over(1.0F, scale);
  }
  TILELACE_DEVICE static uint2 quantised(const float (&v)[8], float inverse) {
    std::uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      two[i] = e4m3_pair(rounded::times(v[2 * i], inverse), rounded::times(v[2 * i + 1], inverse));
    return {two[1] << 16 | two[0], two[3] << 16 | two[2]};
  }

  const NormParams& p_;
  float* shared_;
  uint4* h_;
  int threads_;
  int turn_ = 0;
  float given_ = 1;  ///< what quantised values are multiplied by
};

/// Of a CTA, in a round.
TILELACE_DEVICE schedule::RowRange rows_of(const NormParams& p, schedule::ExchangeRound r) {
  const auto begin = (r.round * p.exchange.schedule.workers + r.worker) * p.chunk_rows;
  return schedule::intersect({begin, begin + p.chunk_rows}, {0, p.rows});
}

/// f(units of a thread, as a constant) for rows of so many places and CTAs of so many threads.
template <int kCount>
struct UnitsTag {
  static constexpr int kUnits = kCount;
};
template <class F>
auto with_units(const NormParams& p, const F& f) {
  const auto units = schedule::ceil_div(p.row_places, plan::kNormThreads);
  if (units <= 1) return f(UnitsTag<1>{});
  return units <= 2 ? f(UnitsTag<2>{}) : f(UnitsTag<4>{});
}
/// Likewise, and for its elements.
template <class E, int kCount>
struct NormTag {
  using Element = E;
  static constexpr int kUnits = kCount;
};
template <class F>
auto with_norm(const NormParams& p, const F& f) {
  return with_units(p, [&](auto u) {
    constexpr int kUnits = decltype(u)::kUnits;
    return p.exchange.item == Item::bf16 ? f(NormTag<__nv_bfloat16, kUnits>{})
                                         : f(NormTag<__half, kUnits>{});
  });
}
inline int norm_threads(const NormParams& p) {
  return p.row_places < plan::kNormThreads ? p.row_places : static_cast<int>(plan::kNormThreads);
}

/// f(params that name each kernel once), until one is no cudaSuccess.
template <class F>
cudaError_t for_each_norm(const F& f) {
  NormParams p{};
  for (const Item item : {Item::bf16, Item::fp16})
    for (const int ranks : {2, schedule::kMaxGpuRanks})
      for (const int units : {1, 2, 4}) {
        p.exchange.item = item;
        p.exchange.schedule.ranks = ranks;
        p.row_places = units * static_cast<int>(plan::kNormThreads);
        if (const cudaError_t status = f(p); status != cudaSuccess) return status;
      }
  return cudaSuccess;
}

}  // namespace tilelace::cuda
