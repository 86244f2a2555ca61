// SPDX-License-Identifier: Apache-2.0
// Sums tiles that all ranks have given (stored and announced). Warps that neither load nor multiply
// read the tiles from all ranks and sum them; at the end, each math group sums its last tile.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/sums_by.h"
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/kernels/admission.h"
#include "schedule/tile_sums.h"

namespace tilelace::cuda {

/// part_of(): number of a CTA's part of a tile. The number depends only on the part's position, so
/// all ranks have the same number. count_at(): offset of a count in symmetric memory.
template <class Body, class Params>
TILELACE_DEVICE int part_of(const Params& p, schedule::GemmCell cell, int cta) {
  return (cell.row * p.work.order.cols + cell.col) * Body::Shape::kCluster + cta;
}
template <class Params>
TILELACE_DEVICE std::size_t count_at(const Params& p, int count) {
  return p.counts + std::size_t{sizeof(comm::Flag)} * static_cast<unsigned>(count);
}

/// Threads that sum together are whole warps and have a named barrier. SumWarps are the last three
/// warps of the loading warpgroup.
struct SumWarps {
  static constexpr int kThreads = 96;
  static TILELACE_DEVICE int thread() { return static_cast<int>(threadIdx.x) - 32; }
  static TILELACE_DEVICE int barrier() { return 6; }  // GemmMath uses lower numbers
};
/// A group that has multiplied all its tiles. It uses its own named barrier.
template <int kGroupBarrier>
struct SumGroup {
  static constexpr int kThreads = 128;
  static TILELACE_DEVICE int thread() { return static_cast<int>(threadIdx.x) % 128; }
  static TILELACE_DEVICE int barrier() {
    return kGroupBarrier + static_cast<int>(threadIdx.x) / 128 - 1;
  }
};

/// The verbs that sum. Each thread has kLoads loads in flight. After a failed wait these verbs do
/// nothing.
template <class Body, class Params, SumsBy kBy, class Crew, int kLoads>
class PieceSums {
  using By = Sums<kBy>;
  using Tile = typename Body::Tile;
  using Element = typename Body::Element;
  static constexpr int kUnits = Tile::width / 8;  ///< pieces per row, some beyond the result's end

 public:
  TILELACE_DEVICE PieceSums(const Params& p, typename Body::Shared shared)
      : p_(p), shared_(shared) {}

  TILELACE_DEVICE void admit() { good_ = may_store(shared_, 0); }

  TILELACE_DEVICE void await_given(int tile) {
    await(Role::reduce, tile, schedule::given_count(part_number(tile)));
  }

  TILELACE_DEVICE void reduce(int /*tile*/, schedule::GemmCell cell) {
    if (!good_) return;
    const Part part = part_at(cell);
    const int pieces = part.rows * kUnits;
    schedule::PieceRange mine{0, pieces};
    if (!p_.one_shot) mine = schedule::pieces_of(p_.call.rank, p_.call.ranks, pieces);
    if constexpr (kBy == SumsBy::by_switch)
      sum_at_once<1>(part, mine);
    else if (p_.call.ranks == 2)
      sum_at_once<2>(part, mine);
    else
      sum_in_turn(part, mine);
  }

  TILELACE_DEVICE void tell_summed(int tile) {
    if (!good_ || p_.one_shot) return;
    ptx::sync_threads(Crew::barrier(), Crew::kThreads);
    if (Crew::thread() < 32)
      By::count(p_.slots, p_.call.ranks, count_at(p_, schedule::summed_count(part_number(tile))));
  }

  TILELACE_DEVICE void await_summed(int tile) {
    if (!p_.one_shot) await(Role::copy, tile, schedule::summed_count(part_number(tile)));
  }

  TILELACE_DEVICE void deliver(int /*tile*/, schedule::GemmCell cell) {
    if (!good_ || p_.one_shot || p_.delivered == nullptr) return;
    const Part part = part_at(cell);
    const std::byte* const from = p_.slots.base + p_.call.rank * p_.slots.stride + p_.results_at;
    for (int i = Crew::thread(); i < part.rows * kUnits; i += kLoads * Crew::kThreads) {
      uint4 v[kLoads];
#pragma unroll
      for (int u = 0; u < kLoads; ++u)
        if (has(part, i + u * Crew::kThreads))
          v[u] = __ldcg(reinterpret_cast<const uint4*>(from + at(part, i + u * Crew::kThreads)));
#pragma unroll
      for (int u = 0; u < kLoads; ++u)
        if (has(part, i + u * Crew::kThreads))
          *reinterpret_cast<uint4*>(p_.delivered + at(part, i + u * Crew::kThreads)) = v[u];
    }
  }

 private:
  /// This CTA's number in the cluster, recomputed since a kept value would take a register.
  static TILELACE_DEVICE int cta() { return static_cast<int>(blockIdx.x) % Body::Shape::kCluster; }
  /// This CTA's part of a tile, at (row, col): `rows` rows, and `units` pieces to the result's end.
  struct Part {
    int row, rows, col, units;
  };
  [[nodiscard]] TILELACE_DEVICE Part part_at(schedule::GemmCell cell) const {
    constexpr int kRows = Body::Shape::kRows;
    const int row = (cell.row * Tile::cluster_rows + cta() % Tile::cluster_rows) * kRows;
    const int col = (cell.col * Tile::cluster_cols + cta() / Tile::cluster_rows) * Tile::width;
    return {row, max(0, min(kRows, p_.m - row)), col, (p_.n - col) / 8};
  }
  [[nodiscard]] TILELACE_DEVICE static bool has(const Part& part, int piece) {
    return piece < part.rows * kUnits && piece % kUnits < part.units;
  }
  /// Byte offset of a piece in [m, n]; the number of a piece fits 32 bits.
  [[nodiscard]] TILELACE_DEVICE std::size_t at(const Part& part, int piece) const {
    const auto row = static_cast<std::uint32_t>(part.row + piece / kUnits);
    return std::size_t{16} * (row * static_cast<std::uint32_t>(p_.n / 8) +
                              static_cast<std::uint32_t>(part.col / 8 + piece % kUnits));
  }
  [[nodiscard]] TILELACE_DEVICE int part_number(int tile) const {
    return part_of<Body>(p_, p_.work.order.cell(tile), cta());
  }

  /// Sums several pieces at once, of kTerms terms each.
  template <int kTerms>
  TILELACE_DEVICE void sum_at_once(const Part& part, schedule::PieceRange mine) const {
    constexpr int kAtOnce = kLoads / kTerms;
    const auto is_mine = [&](int piece) { return piece < mine.end && has(part, piece); };
    for (int i = mine.begin + Crew::thread(); i < mine.end; i += kAtOnce * Crew::kThreads) {
      uint4 v[kAtOnce][kTerms];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (const int piece = i + u * Crew::kThreads; is_mine(piece))
#pragma unroll
          for (int r = 0; r < kTerms; ++r) v[u][r] = load(part, piece, r);
#pragma unroll 1  // the code stays small without unrolling; each iteration moves terms to v[0]
      for (int u = 0; u < kAtOnce; ++u) {
        if (const int piece = i + u * Crew::kThreads; is_mine(piece)) {
          float f[8] = {};
#pragma unroll
          for (int r = 0; r < kTerms; ++r) add_elements<Element>(f, v[0][r]);
          store(part, piece, f);
        }
#pragma unroll
        for (int next = 1; next < kAtOnce; ++next)
#pragma unroll
          for (int r = 0; r < kTerms; ++r) v[next - 1][r] = v[next][r];
      }
    }
  }
  /// Sums one piece after another, loading the terms of up to four ranks at once.
  TILELACE_DEVICE void sum_in_turn(const Part& part, schedule::PieceRange mine) const {
    for (int i = mine.begin + Crew::thread(); i < mine.end; i += Crew::kThreads) {
      if (!has(part, i)) continue;
      float f[8] = {};
#pragma unroll 1
      for (int rank = 0; rank < p_.call.ranks; rank += 4) {
        uint4 v[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
          if (rank + r < p_.call.ranks) v[r] = load(part, i, rank + r);
#pragma unroll
        for (int r = 0; r < 4; ++r)
          if (rank + r < p_.call.ranks) add_elements<Element>(f, v[r]);
      }
      store(part, i, f);
    }
  }
  [[nodiscard]] TILELACE_DEVICE uint4 load(const Part& part, int piece, int rank) const {
    return By::template load<Element>(p_.slots, rank, p_.partials + at(part, piece));
  }
  TILELACE_DEVICE void store(const Part& part, int piece, float (&f)[8]) const {
    const std::size_t offset = at(part, piece);
    complete(f, offset, part.col + piece % kUnits * 8);
    const uint4 v = pack_elements<Element>(f);
    if (p_.one_shot)
      *reinterpret_cast<uint4*>(p_.delivered + offset) = v;
    else
      By::template store<Element>(p_.results, p_.call.ranks, p_.results_at + offset, v);
  }

  /// One thread waits until every rank has added 1 for this use of the count. A barrier then makes
  /// what the thread saw visible to all. `uses` is volatile, since another SM may have written it.
  TILELACE_DEVICE void await(Role role, int tile, int count) {
    if (!good_) return;
    bool here = true;
    if (Crew::thread() == 0) {
      const auto ranks = static_cast<std::uint32_t>(p_.call.ranks);
      volatile comm::Flag* const uses = p_.uses + count;
      const std::uint32_t before = *uses * ranks;
      const std::uint32_t epoch = admitted_number(shared_);
      const auto* word = reinterpret_cast<const comm::Flag*>(
          p_.slots.base + p_.call.rank * p_.slots.stride + count_at(p_, count));
      const WaitPlace place{role, kEveryRank, tile, p_.call.rank,
                            static_cast<std::uint32_t>(count)};
      comm::Flag seen = 0;
      here = detail::wait_word(
                 p_.call.wait, place, word, epoch,
                 [=](comm::Flag have) { return have - before < ranks ? epoch - 1 : epoch; },
                 seen) == comm::WaitStatus::reached;
      if (here) *uses = *uses + 1;
      By::alias_fence();  // stays: for the multicast mapping, which no emulated GPU has
    }
    good_ = ptx::sync_threads_all(Crew::barrier(), Crew::kThreads, here);
  }

  /// Applies residual, bias and activation to eight sums, in fp32. `at`: byte offset in [m, n].
  TILELACE_DEVICE void complete(float (&f)[8], std::size_t at, int col) const {
    if (p_.residual != nullptr)
      add_elements<Element>(
          f,
          __ldcg(reinterpret_cast<const uint4*>(static_cast<const std::byte*>(p_.residual) + at)));
    if (p_.sum_bias != nullptr)
      add_elements<Element>(f, __ldg(reinterpret_cast<const uint4*>(
                                   static_cast<const std::byte*>(p_.sum_bias) + 2 * col)));
    if (p_.sum_activation != Activation::none) activate<8>(p_.sum_activation, f);
  }

  const Params& p_;
  typename Body::Shared shared_;
  bool good_ = false;
};

/// The verbs of schedule::run_sums_math. `math` (a GemmMath) carries them out.
template <class Body, class Params, SumsBy kBy, class Math>
class GiveTiles {
 public:
  TILELACE_DEVICE GiveTiles(const Params& p, typename Body::Shared shared, Math& math)
      : p_(p), shared_(shared), math_(math) {}

  TILELACE_DEVICE void skip(schedule::GemmSegment s) { math_.skip(s); }
  TILELACE_DEVICE void multiply(schedule::GemmSegment s) { math_.multiply(s); }
  TILELACE_DEVICE void give(schedule::GemmCell cell) { math_.store(cell); }
  TILELACE_DEVICE void admit() { admitted_ = may_store(shared_, 0); }
  /// The thread that stored waits until its stores have arrived; then the warp adds one to the
  /// count at every rank. The whole warp takes part, since a divergent branch here would make ptxas
  /// reconverge the warp in every step of the main loop.
  TILELACE_DEVICE void tell_given(int tile) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    if (__shfl_sync(~0U, thread / 32, 0) != 0 || !admitted_) return;
    if (thread == 0) bulk_complete();
    __syncwarp();
    const int part = part_of<Body>(p_, p_.work.order.cell(tile), math_.place().cta);
    Sums<kBy>::count(p_.slots, p_.call.ranks, count_at(p_, schedule::given_count(part)));
  }

 private:
  const Params& p_;
  typename Body::Shared shared_;
  Math& math_;
  bool admitted_ = false;
};

}  // namespace tilelace::cuda
