// SPDX-License-Identifier: Apache-2.0
// Partial sums of gemm_rs: a tile of a peer's rows goes straight from registers into the peer's
// slot and is signalled; for a tile of own rows the peers' terms are added in rank order. In the
// slot a partial lies as the accumulator does: eight values of a thread, then the next thread's.
// Nobody else ever reads it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/device/transfer.h"
#include "backend/cuda/kernels/gemm_gate.h"

namespace tilelace::cuda {

TILELACE_DEVICE std::uint32_t pack(float low, float high, __nv_bfloat16 /*type*/) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
TILELACE_DEVICE std::uint32_t pack(float low, float high, __half /*type*/) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

TILELACE_DEVICE float2 unpack(std::uint32_t v, __nv_bfloat16 /*type*/) {
  return {__uint_as_float(v << 16), __uint_as_float(v & 0xFFFF0000U)};
}
TILELACE_DEVICE float2 unpack(std::uint32_t v, __half /*type*/) {
  __half2 h;
  *reinterpret_cast<std::uint32_t*>(&h) = v;
  return __half22float2(h);
}

/// The partial sums of one tile, for one group of math threads. The object lives for one tile.
template <class Tile, class Element>
class PartialSums {
  using Shape = GemmShape<Tile>;
  using Accumulators = float[Tile::blocks][Shape::kAccumulators];
  static constexpr int kValues = Tile::blocks * Shape::kAccumulators;  ///< of a thread
  static constexpr int kPieces = (kValues + 7) / 8;
  /// Terms that are under way together: what registers are left for.
  static constexpr int kAtOnce = kValues > 168 ? 1 : kValues > 160 ? 2 : 4;

 public:
  /// Flags and bytes that one CTA's part of a partial takes.
  static constexpr int kGroups = Tile::pingpong ? 1 : Tile::groups;
  static constexpr int kBytes = kGroups * kPieces * 128 * 16;

  TILELACE_DEVICE PartialSums(const GemmRsParams& p, schedule::GemmCell cell, int cta, int group,
                              int barrier)
      : p_(p),
        cell_(cell),
        cta_(cta),
        group_(Tile::pingpong ? 0 : group),
        barrier_(barrier),
        thread_(static_cast<int>(threadIdx.x) & 127) {}

  /// Sends the accumulator, rounded, to the owner of the tile's rows.
  TILELACE_DEVICE void give(const Accumulators& acc, std::uint32_t epoch) {
    const int owner = p_.work.order.section[cell_.section].owner;
    uint4* to = place(owner, p_.call.rank);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      float v[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = value(acc, 8 * i + e);
      to[i * 128] = {pack(v[0], v[1], Element{}), pack(v[2], v[3], Element{}),
                     pack(v[4], v[5], Element{}), pack(v[6], v[7], Element{})};
    }
    publish({thread_, 128}, barrier_, flag(owner, p_.call.rank), epoch);
  }

  /// Adds the peers' terms, in rank order, the own one in its place among them. False, to all
  /// threads: a term never came.
  TILELACE_DEVICE bool add(Accumulators& acc, std::uint32_t epoch) {
    if (!wait_terms(epoch)) return false;
    const uint4* from = place(p_.call.rank, 0);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      float sum[8] = {};
      for (int q = 0; q < p_.work.order.ranks; q += kAtOnce) {
        uint4 term[kAtOnce];
#pragma unroll
        for (int t = 0; t < kAtOnce; ++t)
          if (peer(q + t)) term[t] = __ldcg(from + (q + t) * source_pieces() + i * 128);
#pragma unroll
        for (int t = 0; t < kAtOnce; ++t) {
          if (peer(q + t))
            add_piece(sum, term[t]);
          else if (q + t == p_.call.rank)
#pragma unroll
            for (int e = 0; e < 8; ++e) sum[e] += value(acc, 8 * i + e);
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (8 * i + e < kValues)
          acc[(8 * i + e) / Shape::kAccumulators][(8 * i + e) % Shape::kAccumulators] = sum[e];
    }
    return true;
  }

 private:
  TILELACE_DEVICE static float value(const Accumulators& acc, int i) {
    return i < kValues ? acc[i / Shape::kAccumulators][i % Shape::kAccumulators] : 0.0F;
  }
  TILELACE_DEVICE static void add_piece(float (&sum)[8], const uint4& v) {
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 f = unpack(words[w], Element{});
      sum[2 * w] += f.x, sum[2 * w + 1] += f.y;
    }
  }
  [[nodiscard]] TILELACE_DEVICE bool peer(int q) const {
    return q < p_.work.order.ranks && q != p_.call.rank;
  }

  /// A lane a peer; then all threads of the group know.
  TILELACE_DEVICE bool wait_terms(std::uint32_t epoch) {
    bool here = true;
    if (thread_ < p_.work.order.ranks && thread_ != p_.call.rank) {
      const comm::Flag* f = flag(p_.call.rank, thread_);
      const auto index = static_cast<std::uint32_t>(number(thread_) * kGroups + group_);
      const WaitPlace place{Role::reduce, cell_.section, cell_.col, thread_, index};
      here = wait(p_.call.wait, place, f, epoch) == comm::WaitStatus::reached;
    }
    return ptx::sync_threads_all(barrier_, 128, here);
  }

  [[nodiscard]] TILELACE_DEVICE int number(int source) const {
    return p_.work.order.partial(source, cell_) * Shape::kCluster + cta_;
  }
  /// From one source's partials to the next one's.
  [[nodiscard]] TILELACE_DEVICE std::int64_t source_pieces() const {
    const schedule::ReduceOrder& o = p_.work.order;
    return std::int64_t{o.blocks} * o.max_tiles * Shape::kCluster * (kBytes / 16);
  }
  [[nodiscard]] TILELACE_DEVICE uint4* place(int at, int source) const {
    return reinterpret_cast<uint4*>(p_.call.base + at * p_.call.stride + p_.partials) +
           std::int64_t{number(source)} * (kBytes / 16) + group_ * kPieces * 128 + thread_;
  }
  [[nodiscard]] TILELACE_DEVICE comm::Flag* flag(int at, int source) const {
    return reinterpret_cast<comm::Flag*>(p_.call.base + at * p_.call.stride + p_.call.flags) +
           number(source) * kGroups + group_;
  }

  const GemmRsParams& p_;
  schedule::GemmCell cell_;
  int cta_, group_, barrier_, thread_;
};

}  // namespace tilelace::cuda
