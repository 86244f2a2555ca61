// SPDX-License-Identifier: Apache-2.0
// The GEMM of gemm_ar by multimem: the plain product, whose tiles go into the own slot, and one
// more warpgroup, which has the switch add up what all ranks gave. That warpgroup enters the call,
// too: the others wait for no peer, but for the admission before they tell of a tile.
#pragma once
#include "backend/cuda/device/multimem.h"
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/kernels/gemm_multimem_params.h"
#include "schedule/multimem_tiles.h"

namespace tilelace::cuda {

/// Named barrier of the warpgroup that sums.
constexpr int kSumBarrier = 6;

template <class Tile>
struct MultimemShape : GemmShape<Tile> {
  static constexpr int kThreads = GemmShape<Tile>::kThreads + 128;
  /// A thread's; all together 512 a thread of each warpgroup.
  static constexpr int kLoadRegisters = 40;
  static constexpr int kSumRegisters = 72;
  static constexpr int kMathRegisters = (512 - kLoadRegisters - kSumRegisters) / 2;
  static_assert(Tile::groups == 2 && Tile::pingpong && !Tile::swapped && Tile::per_sm == 1);
};

/// This CTA's part of a tile. Parts are numbered by where they are, whichever way a rank walks.
template <class Tile>
TILELACE_DEVICE int part_of(const GemmMultimemParams& p, schedule::GemmCell cell, int cta) {
  return (cell.row * p.work.order.cols + cell.col) * GemmShape<Tile>::kCluster + cta;
}
TILELACE_DEVICE std::size_t count_at(const GemmMultimemParams& p, int count) {
  return p.counts + std::size_t{sizeof(comm::Flag)} * static_cast<unsigned>(count);
}

/// Verbs of run_multimem_math.
template <class Tile, class Element, MultimemBy kBy>
class MultimemMath {
 public:
  TILELACE_DEVICE MultimemMath(const GemmMultimemParams& p, GemmShared<Tile> shared,
                               Place<Tile> place, int group)
      : p_(p), shared_(shared), cta_(place.cta), math_(p, shared, place, group) {}

  TILELACE_DEVICE void skip(schedule::GemmSegment s) { math_.skip(s); }
  TILELACE_DEVICE void multiply(schedule::GemmSegment s) { math_.multiply(s); }
  TILELACE_DEVICE void give(schedule::GemmCell cell) { math_.store(cell); }
  TILELACE_DEVICE void admit() { admitted_ = may_store(shared_, 0); }
  /// The thread that stored tells, once everything has arrived.
  TILELACE_DEVICE void tell_given(int tile) {
    if (threadIdx.x % 128 != 0 || !admitted_) return;
    bulk_complete();
    const int part = part_of<Tile>(p_, p_.work.order.cell(tile), cta_);
    Multimem<kBy, Element>::count(p_.slots, p_.call.ranks,
                                  count_at(p_, schedule::given_count(part)));
  }
  TILELACE_DEVICE void finish() { math_.finish(); }

 private:
  const GemmMultimemParams& p_;
  GemmShared<Tile> shared_;
  int cta_;
  bool admitted_ = false;
  GemmMath<Tile, Element, GemmMultimemParams> math_;
};

/// Verbs of run_multimem_reduce, by a warpgroup. Once a wait has failed it does nothing any more.
template <class Tile, class Element, MultimemBy kBy>
class MultimemSums {
  using Switch = Multimem<kBy, Element>;
  static constexpr int kThreads = 128;
  static constexpr int kAtOnce = 4;  ///< pieces of a thread

 public:
  TILELACE_DEVICE MultimemSums(const GemmMultimemParams& p, GemmShared<Tile> shared,
                               Place<Tile> place)
      : p_(p), shared_(shared), place_(place), thread_(static_cast<int>(threadIdx.x) & 127) {}

  TILELACE_DEVICE void admit() {
    if (thread_ < 32) cuda::admit(p_, shared_);
    epoch_ = admitted_number(shared_);
    good_ = may_store(shared_, 0);
  }

  TILELACE_DEVICE void await_given(int tile) {
    const int part = part_number(tile);
    await(Role::reduce, tile, part, schedule::given_count(part));
  }

  TILELACE_DEVICE void reduce(int /*tile*/, schedule::GemmCell cell) {
    if (!good_) return;
    const Part part = part_at(cell);
    const schedule::PieceRange mine =
        schedule::pieces_of(p_.call.rank, p_.call.ranks, part.rows * part.units);
    for (int i = mine.begin + thread_; i < mine.end; i += kAtOnce * kThreads) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (i + u * kThreads < mine.end)
          v[u] = Switch::reduce(p_.slots, p_.call.ranks,
                                p_.partials + piece_at(part, i + u * kThreads));
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (i + u * kThreads >= mine.end) continue;
        const std::size_t at = piece_at(part, i + u * kThreads);
        if (completes()) complete(v[u], at, part.col + (i + u * kThreads) % part.units * 8);
        Switch::store(p_.results, p_.call.ranks, p_.results_at + at, v[u]);
      }
    }
  }

  TILELACE_DEVICE void tell_summed(int tile) {
    if (!good_) return;
    ptx::sync_threads(kSumBarrier, kThreads);
    if (thread_ == 0)
      Switch::count(p_.slots, p_.call.ranks,
                    count_at(p_, schedule::summed_count(part_number(tile))));
  }

  TILELACE_DEVICE void await_summed(int tile) {
    const int part = part_number(tile);
    await(Role::copy, tile, part, schedule::summed_count(part));
    if (good_ && thread_ == 0) p_.uses[part] = uses(part) + 1;
  }

  TILELACE_DEVICE void deliver(int /*tile*/, schedule::GemmCell cell) {
    if (!good_ || p_.delivered == nullptr) return;
    const Part part = part_at(cell);
    const std::byte* const from = p_.slots.base + p_.call.rank * p_.slots.stride + p_.results_at;
    const int pieces = part.rows * part.units;
    for (int i = thread_; i < pieces; i += kAtOnce * kThreads) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (i + u * kThreads < pieces)
          v[u] = __ldcg(reinterpret_cast<const uint4*>(from + piece_at(part, i + u * kThreads)));
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (i + u * kThreads < pieces)
          *reinterpret_cast<uint4*>(p_.delivered + piece_at(part, i + u * kThreads)) = v[u];
    }
  }

 private:
  /// What this CTA computes of a tile: a piece is 16 bytes, a row has `units` of them.
  struct Part {
    int row, rows, col, units;
  };
  [[nodiscard]] TILELACE_DEVICE Part part_at(schedule::GemmCell cell) const {
    constexpr int kRows = GemmShape<Tile>::kRows;
    const int row = (cell.row * Tile::cluster_rows + place_.row) * kRows;
    const int col = (cell.col * Tile::cluster_cols + place_.col) * Tile::width;
    return {row, max(0, min(kRows, p_.m - row)), col, max(0, min(Tile::width, p_.n - col)) / 8};
  }
  [[nodiscard]] TILELACE_DEVICE std::size_t piece_at(const Part& part, int piece) const {
    const int row = part.row + piece / part.units;
    const int col = part.col + piece % part.units * 8;
    return 2 * static_cast<std::size_t>(std::int64_t{row} * p_.n + col);
  }
  [[nodiscard]] TILELACE_DEVICE int part_number(int tile) const {
    return part_of<Tile>(p_, p_.work.order.cell(tile), place_.cta);
  }
  /// The call before may have counted it on another multiprocessor.
  [[nodiscard]] TILELACE_DEVICE comm::Flag uses(int part) const {
    return *static_cast<const volatile comm::Flag*>(p_.uses + part);
  }

  /// One thread looks; the barrier shows the others what it saw. All ranks have counted once more
  /// than in the calls before.
  TILELACE_DEVICE void await(Role role, int tile, int part, int count) {
    if (!good_) return;
    bool here = true;
    if (thread_ == 0) {
      const auto ranks = static_cast<std::uint32_t>(p_.call.ranks);
      const std::uint32_t before = uses(part) * ranks;
      const std::uint32_t epoch = epoch_;
      const auto* word = reinterpret_cast<const comm::Flag*>(
          p_.slots.base + p_.call.rank * p_.slots.stride + count_at(p_, count));
      const WaitPlace place{role, kEveryRank, tile, p_.call.rank,
                            static_cast<std::uint32_t>(count)};
      comm::Flag seen = 0;
      here = detail::wait_word(
                 p_.call.wait, place, word, epoch,
                 [=](comm::Flag have) { return have - before < ranks ? epoch - 1 : epoch; },
                 seen) == comm::WaitStatus::reached;
      Switch::alias_fence();
    }
    good_ = ptx::sync_threads_all(kSumBarrier, kThreads, here);
  }

  [[nodiscard]] TILELACE_DEVICE bool completes() const {
    return p_.sum_bias != nullptr || p_.residual != nullptr ||
           p_.sum_activation != Activation::none;
  }
  /// Residual, bias and activation of eight sums, in fp32.
  TILELACE_DEVICE void complete(uint4& v, std::size_t at, int col) const {
    float f[8] = {};
    add_elements<Element>(f, v);
    if (p_.residual != nullptr)
      add_elements<Element>(
          f,
          __ldcg(reinterpret_cast<const uint4*>(static_cast<const std::byte*>(p_.residual) + at)));
    if (p_.sum_bias != nullptr)
      add_elements<Element>(f, __ldg(reinterpret_cast<const uint4*>(
                                   static_cast<const std::byte*>(p_.sum_bias) + 2 * col)));
    if (p_.sum_activation != Activation::none) activate(p_.sum_activation, f);
    v = pack_elements<Element>(f);
  }

  const GemmMultimemParams& p_;
  GemmShared<Tile> shared_;
  Place<Tile> place_;
  int thread_;
  std::uint32_t epoch_ = 0;
  bool good_ = false;
};

template <class Tile, class Element, MultimemBy kBy>
__global__ void __launch_bounds__(MultimemShape<Tile>::kThreads, 1)
    gemm_multimem_kernel(const __grid_constant__ GemmMultimemParams p) {
  using Shape = MultimemShape<Tile>;
  extern __shared__ __align__(1024) std::uint8_t memory[];
  GemmShared<Tile> shared{ptx::shared_address(memory)};
  asm("" : "+r"(shared.base));  // computed once, not wherever it is used
  const auto place = Place<Tile>::here(p.places);
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) init_gate(shared);
  start_ring(p, shared);
  ptx::launch_dependents();
  if (warpgroup == 0) {
    ptx::registers_less<Shape::kLoadRegisters>();
    if (__shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0) == 0) {
      GemmLoad<Tile, GemmMultimemParams> load(p, shared, place);
      schedule::run_gemm_load(p.work, place.worker, load);
      load.finish();
    }
  } else if (warpgroup <= Tile::groups) {
    ptx::registers_more<Shape::kMathRegisters>();
    ptx::wait_prerequisites();
    MultimemMath<Tile, Element, kBy> math(p, shared, place, warpgroup - 1);
    schedule::run_multimem_math(p.work, place.worker, warpgroup - 1, Shape::kTurns, math);
    math.finish();
  } else {
    ptx::registers_less<Shape::kSumRegisters>();
    ptx::wait_prerequisites();
    MultimemSums<Tile, Element, kBy> sums(p, shared, place);
    schedule::run_multimem_reduce(p.work, place.worker, sums);
  }
}

}  // namespace tilelace::cuda
