// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows by a CTA (tilelace/all_reduce_norm.h defines it bit for bit).
#pragma once
#include "backend/cuda/collectives/norm.h"
#include "backend/cuda/device/async_copy.h"
#include "backend/cuda/device/cluster_shared.h"
#include "backend/cuda/device/e4m3.h"
#include "backend/cuda/device/reductions.h"
#include "core/e4m3.h"
#include "core/rounded.h"

namespace tilelace::cuda {

/// Words that the warps of a row's CTAs exchange. A set has a sum of squares and a largest
/// magnitude per group of 32 units. A CTA with whole rows alternates between two sets, since a late
/// warp may still read the previous set. The last words, one per CTA, are for warps without units.
constexpr int kNormGroups = 64, kNormParts = 4, kNormWords = 4 * kNormGroups + kNormParts;
struct NormShared {
  float2 words[kNormWords];
  std::uint64_t barriers[2];  ///< [0]: for squares; [1]: for maxima; used if CTAs share a row
};
/// Number of units that a CTA keeps in shared memory: sums and, if there is room, weights.
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

/// One thread's units of its CTA's part of a row. Thread t has units t, t + threads, and so on. All
/// threads of a row's CTAs call every function. Threads from number `threads` on have no units.
template <class Element, int kUnits>
class RowNorm {
  using Lanes = detail::FloatLanes<Element>;
  static constexpr int kStep = static_cast<int>(plan::kNormThreads);
  static constexpr bool kKeepsWeight = kUnits < 4;
  /// Unroll factor of loops over a thread's units.
  static constexpr int kStraight = kUnits < 4 ? kUnits : 1;

 public:
  TILELACE_DEVICE RowNorm(const NormParams& p, NormShared& shared, uint4* kept, int threads)
      : p_(p), shared_(shared), h_(kept), threads_(threads), first_(part() * p.part_places) {}

  /// Call this first. Returns once all CTAs of the row run. `threads`: how many threads have units.
  TILELACE_DEVICE static void begin(const NormParams& p, NormShared& shared, int threads) {
    if (p.parts == 1) return;
    if (thread() == 0) {
      const int units = p.parts * p.part_places / 32 * static_cast<int>(sizeof(float2));
      const int others = static_cast<int>(blockDim.x) > threads ? p.parts : 0;
      for (std::uint64_t& b : shared.barriers) ptx::barrier_init(ptx::shared_address(&b), 1);
      // stays: other CTAs count on the barriers, which cluster_sync alone need not show them
      ptx::barrier_init_fence();
      ptx::barrier_expect(ptx::shared_address(&shared.barriers[0]),
                          units + others * static_cast<int>(sizeof(float2)));
      ptx::barrier_expect(ptx::shared_address(&shared.barriers[1]), units);
    }
    ptx::cluster_sync();
  }

  /// Index of this thread's k-th unit. place(): in the CTA's part of the row; unit(): in the row.
  [[nodiscard]] TILELACE_DEVICE int place(int k) const { return thread() + k * threads_; }
  [[nodiscard]] TILELACE_DEVICE int unit(int k) const { return first_ + place(k); }
  [[nodiscard]] TILELACE_DEVICE bool has(int k) const {
    return in_part(k) && unit(k) < p_.row_units;
  }

  /// Call before any wait. Starts to copy the weight. settle() awaits the weight and the residual.
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
  /// Adds the residual to a sum and keeps the result. `k`: the index of one of this thread's units.
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

  /// Exchanges sums of squares between the row's CTAs. Returns whether all threads passed true.
  TILELACE_DEVICE bool share_squares(bool good) {
    const float wrong = p_.parts == 1 || __all_sync(~0U, good ? 1 : 0) != 0 ? 0 : 1;
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k) {
      const float sum = detail::tree_of_warp(has(k) ? squares(h(k)) : 0.0F);
      give(squares_at(), k, {sum, wrong}, 0);
    }
    if (p_.parts == 1) return __syncthreads_and(good ? 1 : 0) != 0;
    if (thread() >= threads_ && lane() < p_.parts)
      send_at(others() + part(), lane(), {0, wrong}, barrier(0));
    ptx::barrier_wait(barrier(0), 0);
    const float2* const of = squares_at();
    bool all = lane() >= groups() || of[lane()].y == 0;
    if (lane() + 32 < groups()) all = all && of[lane() + 32].y == 0;
    if (static_cast<int>(blockDim.x) > threads_ && lane() < p_.parts)
      all = all && others()[lane()].y == 0;
    return __all_sync(~0U, all ? 1 : 0) != 0;
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
  TILELACE_DEVICE int part() const {
    return p_.parts == 1 ? 0 : static_cast<int>(blockIdx.x) % p_.parts;
  }
  TILELACE_DEVICE bool in_part(int k) const {
    return thread() < threads_ && place(k) < p_.part_places;
  }
  TILELACE_DEVICE float2* squares_at() const { return shared_.words + turn_ * kNormGroups; }
  TILELACE_DEVICE float2* largest_at() const { return squares_at() + 2 * kNormGroups; }
  TILELACE_DEVICE float2* others() const { return shared_.words + 4 * kNormGroups; }
  TILELACE_DEVICE ptx::Shared barrier(int of) const {
    return ptx::shared_address(&shared_.barriers[of]);
  }
  TILELACE_DEVICE int groups() const { return p_.parts * p_.part_places / 32; }
  /// Gives the row's CTAs this warp's word for its k-th units. barriers[of] counts it if parts > 1.
  TILELACE_DEVICE void give(float2* words, int k, float2 word, int of) const {
    if (!in_part(k)) return;
    if (p_.parts > 1 && lane() < p_.parts)
      send_at(words + unit(k) / 32, lane(), word, barrier(of));
    else if (p_.parts == 1 && lane() == 0)
      words[unit(k) / 32] = word;
  }
  /// h(k): unit k's residual, later residual + sum; h(kUnits + k): unit k's weights, if kept.
  TILELACE_DEVICE uint4& h(int k) const { return h_[k * kStep + thread()]; }

  TILELACE_DEVICE static float squares(const uint4& h) {
    float f[8];
    Lanes::read(h, f);
    float sum = rounded::times(f[0], f[0]);
#pragma unroll
    for (int i = 1; i < 8; ++i) sum = rounded::plus(sum, rounded::times(f[i], f[i]));
    return sum;
  }

  /// 1 / sqrt(mean square + eps). Units beyond the row are zero, so they change nothing.
  TILELACE_DEVICE float root_of_squares() const {
    const float2* const of = squares_at();
    float sum = detail::tree_of_warp(lane() < groups() ? of[lane()].x : 0.0F);
    if (groups() > 32)
      sum = rounded::plus(sum,
                          detail::tree_of_warp(lane() + 32 < groups() ? of[lane() + 32].x : 0.0F));
    return rounded::inverse_root(rounded::plus(rounded::times(sum, p_.share), p_.eps));
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

  /// Finds the row's scale for NormQuant::token. The row's CTAs exchange words once more for it.
  TILELACE_DEVICE void find_scale(std::int64_t row, float root) {
#pragma unroll(kStraight)
    for (int k = 0; k < kUnits; ++k) {
      float v[8];
      value(k, root, v);
      give(largest_at(), k, {detail::most_of<32>(most_in(v)), 0}, 1);
    }
    if (p_.parts == 1)
      __syncthreads();
    else
      ptx::barrier_wait(barrier(1), 0);
    const float2* const of = largest_at();
    float most = lane() < groups() ? of[lane()].x : 0.0F;
    if (lane() + 32 < groups()) most = fmaxf(most, of[lane() + 32].x);
    const float scale = detail::scale_of(detail::most_of<32>(most));
    given_ = rounded::over(1.0F, scale);
    if (thread() == 0 && part() == 0) p_.scales[row] = scale;
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
  NormShared& shared_;
  uint4* h_;
  int threads_;
  int first_;  ///< this CTA's first unit, as an index in the row
  int turn_ = 0;
  float given_ = 1;  ///< 1 / scale, by which values are multiplied before rounding
};

/// The rows that a CTA, or a cluster that shares rows, normalises in a round.
TILELACE_DEVICE schedule::RowRange rows_of(const NormParams& p, schedule::ExchangeRound r) {
  const auto row = r.round * p.exchange.schedule.workers + r.worker;
  const auto begin = (p.parts == 1 ? row : static_cast<int>(row) / p.parts) * p.chunk_rows;
  return schedule::intersect({begin, begin + p.chunk_rows}, {0, p.rows});
}

/// A number of units per thread as a constant. with_units calls f with the number that p needs.
template <int kCount>
struct UnitsTag {
  static constexpr int kUnits = kCount;
};
template <class F>
auto with_units(const NormParams& p, const F& f) {
  const auto units = schedule::ceil_div(p.part_places, plan::kNormThreads);
  if (units <= 1) return f(UnitsTag<1>{});
  return units <= 2 ? f(UnitsTag<2>{}) : f(UnitsTag<4>{});
}
/// A number of units per thread as a constant, and an element type. with_norm calls f with both.
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
  return p.part_places < plan::kNormThreads ? p.part_places : static_cast<int>(plan::kNormThreads);
}

/// Like launch_as, but CTAs that share a row form a cluster. May be captured.
inline cudaError_t launch_norm(Start start, void (*kernel)(NormParams), int threads,
                               cudaStream_t stream, const NormParams& p) {
  cudaLaunchAttribute attributes[2]{};
  const int pair = start == Start::in_pairs ? 2 : 1;
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(p.parts == 1 ? pair : p.parts), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = start == Start::early ? 1 : 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.exchange.schedule.workers));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, p);
}

/// Calls f for every kernel, with params that select that kernel, until f returns an error.
template <class F>
cudaError_t for_each_norm(const F& f) {
  NormParams p{};
  for (const Item item : {Item::bf16, Item::fp16})
    for (const int ranks : {2, schedule::kMaxGpuRanks})
      for (const int units : {1, 2, 4}) {
        p.exchange.item = item;
        p.exchange.schedule.ranks = ranks;
        p.part_places = units * static_cast<int>(plan::kNormThreads);
        if (const cudaError_t status = f(p); status != cudaSuccess) return status;
      }
  return cudaSuccess;
}

}  // namespace tilelace::cuda
