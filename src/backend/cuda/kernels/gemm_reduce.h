// SPDX-License-Identifier: Apache-2.0
// Partial sums of gemm_rs: a tile of a peer's rows goes straight from registers into the peer's
// slot and is signalled. For a tile of own rows the peers' terms follow its operands through the
// ring and are added in rank order. In the slot a partial lies as the accumulator does: a piece is
// eight values of each thread of a group. Nobody else ever reads it.
#pragma once
#include "backend/cuda/device/collect.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/trace.h"
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/kernels/gemm_gate.h"
#include "backend/cuda/kernels/gemm_terms.h"

namespace tilelace::cuda {

/// What the partial sums of one tile take.
template <class Tile>
struct PartialShape {
  static constexpr int kOfBlock = GemmShape<Tile>::kAccumulators;
  static constexpr int kValues = Tile::blocks * kOfBlock;  ///< of a thread
  static constexpr int kPieces = (kValues + 7) / 8;
  static constexpr int kPieceBytes = 128 * 16;
  /// Pieces of a peer that are added together.
  static constexpr int kAtOnce = plan::terms_at_once(Tile::width, Tile::pingpong);
  /// Groups of threads that share one tile: each leaves a part, and raises a flag for it.
  static constexpr int kGroups = Tile::pingpong ? 1 : Tile::groups;
  static constexpr int kBytes = kGroups * kPieces * kPieceBytes;  ///< of one CTA

  /// The first of the group's tokens that a warp's piece has values of. Where tokens are across it
  /// has sixteen, or the first ones of a block behind the last ones of the one before.
  TILELACE_HD static constexpr int first_token(int piece, int warp) {
    const int value = 8 * piece % kOfBlock;
    if (Tile::swapped) return value + 8 > kOfBlock ? 0 : 2 * value;
    return 8 * piece / kOfBlock * 64 + warp * 16;
  }
};

/// Where they lie, from any source, at any rank.
template <class Tile, class Params>
class PartialPlace : public PartialShape<Tile> {
  using Shape = GemmShape<Tile>;
  using Sizes = PartialShape<Tile>;

 public:
  TILELACE_DEVICE PartialPlace(const Params& p, schedule::GemmCell cell, int cta)
      : p_(p), cell_(cell), cta_(cta) {}

  [[nodiscard]] TILELACE_DEVICE int number(int source) const {
    return p_.work.order.partial(source, cell_) * Shape::kCluster + cta_;
  }
  [[nodiscard]] TILELACE_DEVICE std::byte* part(int at, int source, int group) const {
    return p_.call.base + at * p_.call.stride + p_.partials +
           std::int64_t{number(source)} * Sizes::kBytes + group * (Sizes::kBytes / Sizes::kGroups);
  }
  [[nodiscard]] TILELACE_DEVICE int flag_number(int source, int group) const {
    return number(source) * Sizes::kGroups + group;
  }
  [[nodiscard]] TILELACE_DEVICE comm::Flag* flag(int at, int source, int group) const {
    return reinterpret_cast<comm::Flag*>(p_.call.base + at * p_.call.stride + p_.call.flags) +
           flag_number(source, group);
  }

 private:
  const Params& p_;
  schedule::GemmCell cell_;
  int cta_;
};

/// Makes `cell` what this CTA of the cluster computes, and returns the CTA's row in it.
template <class Tile, class Params>
TILELACE_DEVICE int enter_shard(const Params& p, const Place<Tile>& place,
                                schedule::GemmCell& cell) {
  if constexpr (kPairs<Params>)
    return p.work.order.enter(cell, place.row);
  else
    return place.row;
}
/// The number of that row's CTA in a cluster within the shard.
template <class Tile, class Params>
TILELACE_DEVICE int cta_of(const Place<Tile>& place, int cta_row) {
  static_assert(!kPairs<Params> || (Tile::cluster_rows == 2 && Tile::cluster_cols == 1));
  return kPairs<Params> ? cta_row : place.cta;
}

/// Row of an own tile, among the own rows.
template <class Params>
TILELACE_DEVICE int own_row(const Params& p, schedule::GemmCell cell, int row) {
  if constexpr (Params::kShares)  // a block of them
    return row + p.work.order.begin(cell.section) - p.work.order.own_begin;
  else
    return row;
}

/// Column of workers' tiles of the result in which a tile lies.
template <class Params>
TILELACE_DEVICE int tile_col(const Params& p, schedule::GemmCell cell) {
  if constexpr (Params::kShares)  // its owner may have columns
    return cell.col + p.work.order.first_col(cell.section);
  else
    return cell.col;
}

/// A thread's eight values of a term in the ring.
template <class Element>
class TermPiece {
 public:
  TILELACE_DEVICE void load(ptx::Shared from) { v_ = ptx::load_shared_16(from); }
  [[nodiscard]] TILELACE_DEVICE float at(int e) const {
    const std::uint32_t words[4] = {v_.x, v_.y, v_.z, v_.w};
    const float2 two = unpack(words[e / 2], Element{});
    return e % 2 == 0 ? two.x : two.y;
  }

 private:
  uint4 v_;
};

/// Sends the accumulator of a group, rounded, to the owner of the tile's rows, of which
/// `tokens` are there from the group's first on, a piece every `pace` cycles: a burst of all CTAs
/// would fill the way to memory, and the loads of those who multiply meanwhile would wait behind
/// it.
template <class Element, class Tile, class Params, class Accumulators>
TILELACE_DEVICE void give_terms(const Params& p, const PartialPlace<Tile, Params>& place, int owner,
                                int group, const Accumulators& acc, int tokens, int barrier,
                                std::uint32_t pace, std::uint32_t epoch, Trace trace) {
  constexpr int kOfBlock = GemmShape<Tile>::kAccumulators;
  constexpr int kValues = PartialShape<Tile>::kValues;
  const int thread = static_cast<int>(threadIdx.x) & 127;
  auto* to = reinterpret_cast<uint4*>(place.part(owner, p.call.rank, group)) + thread;
  const std::uint32_t begin = ptx::cycles();
#pragma unroll
  for (int i = 0; i < PartialShape<Tile>::kPieces; ++i) {
    if (PartialShape<Tile>::first_token(i, thread / 32) >= tokens) continue;
    ptx::sleep_until(begin, i * pace);
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
      v[e] = 8 * i + e < kValues ? acc[(8 * i + e) / kOfBlock][(8 * i + e) % kOfBlock] : 0.0F;
    to[i * 128] = pack_elements<Element>(v);
  }
  if (thread == 0) trace.add(TraceKind::written, static_cast<int>(threadIdx.x) / 128 - 1);
  publish({thread, 128}, barrier, place.flag(owner, p.call.rank, group), epoch);
}

/// Verbs of the loading warp for tiles of own rows: their terms take the steps of the ring behind
/// their operands, in each the same pieces of all peers and groups.
template <class Tile, class Params>
class TermLoad {
  using Place = PartialPlace<Tile, Params>;

 public:
  TILELACE_DEVICE TermLoad(const Params& p, schedule::GemmCell cell, int cta)
      : p_(p), cell_(cell), place_(p, cell, cta) {}

  /// The rows that will be added behind the terms: threads read them a few bytes at a time, which
  /// only the cache close by is fast enough for.
  TILELACE_DEVICE void prefetch_residual(int row, int col, int rows, int cols) const {
    const int bytes = 2 * min(cols, p_.n - col);
    if (p_.residual == nullptr || bytes <= 0) return;
    const int end = min(row + rows, p_.own_rows);
    const auto* const from = static_cast<const std::byte*>(p_.residual);
    for (int r = row + (static_cast<int>(threadIdx.x) & 31); r < end; r += 32)
      ptx::prefetch_bulk(from + 2 * (std::int64_t{r} * p_.n + col),
                         static_cast<std::uint32_t>(bytes));
  }

  /// A lane a flag; false: a term never came.
  TILELACE_DEVICE bool wait(std::uint32_t epoch, Trace trace, int tile) const {
    bool here = true;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int source = lane / Place::kGroups;
    const int group = lane % Place::kGroups;
    if (source < p_.work.order.ranks && source != p_.call.rank) {
      const auto index = static_cast<std::uint32_t>(place_.flag_number(source, group));
      const WaitPlace place{Role::reduce, cell_.section, cell_.col, source, index};
      here = cuda::wait(p_.call.wait, place, place_.flag(p_.call.rank, source, group), epoch) ==
             comm::WaitStatus::reached;
      trace.add(TraceKind::term, kLoadLane, 16 * tile + source);
    }
    const bool all = __all_sync(~0U, here ? 1 : 0) != 0;
    proxy_fence_global();  // for whichever lane loads
    return all;
  }

  /// One step, into a free stage of the ring; by one lane.
  TILELACE_DEVICE void load(int step, ptx::Shared stage, ptx::Shared full) const {
    const int first = step * p_.term_pieces;
    const int bytes = min(p_.term_pieces, Place::kPieces - first) * Place::kPieceBytes;
    ptx::barrier_expect(full, bytes * Place::kGroups * (p_.work.order.ranks - 1));
    for (int q = 0; q < p_.work.order.ranks; ++q) {
      if (q == p_.call.rank) continue;
#pragma unroll
      for (int g = 0; g < Place::kGroups; ++g) {
        const std::byte* from = place_.part(p_.call.rank, q, g) + first * Place::kPieceBytes;
        bulk_load(stage, from, static_cast<std::uint32_t>(bytes), full);
        stage += p_.term_pieces * Place::kPieceBytes;
      }
    }
  }

 private:
  const Params& p_;
  schedule::GemmCell cell_;
  Place place_;
};

/// The end of a gemm_ar whose results are staged, by the warpgroups that multiplied: all CTAs
/// together take what peers finished to the caller. Groups need not be there at the same time.
template <class Tile>
TILELACE_DEVICE void collect_shared(const GemmArParams& p, GemmShared<Tile> shared) {
  const std::uint32_t epoch = admitted_number(shared);
  if (!may_store(shared, INT_MAX - 1)) return;
  const Crew crew{ptx::thread_again() - 128, 128 * Tile::groups};
  Collect collect(p.call, p.work.order, p.shared, p.n, crew, epoch);
  schedule::run_collect(p.work.order, p.shared.flags, static_cast<int>(blockIdx.x),
                        static_cast<int>(gridDim.x), collect);
}

/// The end of a gemm_ar, by the loading warp: all CTAs together wait until every tile that peers
/// finished is here.
template <class Tile>
TILELACE_DEVICE void await_shared(const GemmArParams& p, std::uint32_t epoch) {
  const schedule::ShareOrder& order = p.work.order;
  const auto* flags = reinterpret_cast<const comm::Flag*>(
                          p.call.base + p.call.rank * p.call.stride + p.call.flags) +
                      p.shared.flags.first_shared;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  // All sections' tiles in one row, dealt to all lanes: few have more than one flag to wait for.
  int skip = static_cast<int>(blockIdx.x) * 32 + lane;
  for (int s = 0; s < order.count; ++s) {
    if (order.own(s)) continue;
    const int owner = order.section[s].owner;
    const int first = order.first_partial(owner, s) * p.shared.flags.parts;
    const int parts = order.tile_rows[s] * order.cols * p.shared.flags.parts;
    for (; skip < parts; skip += static_cast<int>(gridDim.x) * 32) {
      const int i = first + skip;
      const WaitPlace place{Role::copy, s, -1, owner, static_cast<std::uint32_t>(i)};
      if (wait(p.call.wait, place, flags + i, epoch) != comm::WaitStatus::reached) return;
    }
    skip -= parts;
  }
}

}  // namespace tilelace::cuda
