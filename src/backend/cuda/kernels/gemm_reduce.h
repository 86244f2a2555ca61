// SPDX-License-Identifier: Apache-2.0
// Partial sums of gemm_rs: a tile of a peer's rows goes straight from registers into the peer's
// slot and is signalled. For a tile of own rows the peers' terms come through the group's staging
// and are added in rank order. In the slot a partial lies as the accumulator does: a piece is eight
// values of each thread of a group, in fp32 four and behind them the other four. Nobody else ever
// reads it.
#pragma once
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/trace.h"
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/kernels/gemm_gate.h"
#include "backend/cuda/kernels/gemm_terms.h"

namespace tilelace::cuda {

/// What the partial sums of one tile take.
template <class Tile, bool kWide = false>
struct PartialShape {
  static constexpr int kOfBlock = GemmShape<Tile>::kAccumulators;
  static constexpr int kValues = Tile::blocks * kOfBlock;  ///< of a thread
  static constexpr int kPieces = (kValues + 7) / 8;
  static constexpr int kPieceBytes = 128 * (kWide ? 32 : 16);
  /// Groups of threads that share one tile: each leaves a part, and raises a flag for it.
  static constexpr int kGroups = Tile::pingpong ? 1 : Tile::groups;
  static constexpr int kBytes = kGroups * kPieces * kPieceBytes;  ///< of one CTA
};

/// Where they lie, from any source, at any rank.
template <class Tile, class Params>
class PartialPlace : public PartialShape<Tile, Params::kWide> {
  using Shape = GemmShape<Tile>;
  using Sizes = PartialShape<Tile, Params::kWide>;

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
  [[nodiscard]] TILELACE_DEVICE comm::Flag* flag(int at, int source, int group) const {
    return reinterpret_cast<comm::Flag*>(p_.call.base + at * p_.call.stride + p_.call.flags) +
           number(source) * Sizes::kGroups + group;
  }

 private:
  const Params& p_;
  schedule::GemmCell cell_;
  int cta_;
};

/// Row of an own tile, among the own rows.
template <class Params>
TILELACE_DEVICE int own_row(const Params& p, schedule::GemmCell cell, int row) {
  if constexpr (Params::kShares)  // a block of them
    return row + p.work.order.begin(cell.section) - p.work.order.own_begin;
  else
    return row;
}

/// A thread's eight values of a term in shared memory.
template <class Element, bool kWide>
class TermPiece {
 public:
  TILELACE_DEVICE void load(ptx::Shared from) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) v_[i] = ptx::load_shared_16(from + i * 128 * 16);
  }
  [[nodiscard]] TILELACE_DEVICE float at(int e) const {
    const uint4& v = v_[kWide ? e / 4 : 0];
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kWide) return __uint_as_float(words[e % 4]);
    const float2 two = unpack(words[e / 2], Element{});
    return e % 2 == 0 ? two.x : two.y;
  }

 private:
  static constexpr int kLoads = kWide ? 2 : 1;
  uint4 v_[kLoads];
};

/// Sends the accumulator of a group, rounded or as it is, to the owner of the tile's rows, of which
/// `rows` are there from the group's first on, a piece every `pace` cycles: a burst of all CTAs
/// would fill the way to memory, and the loads of those who multiply meanwhile would wait behind
/// it.
template <class Element, class Tile, class Params, class Accumulators>
TILELACE_DEVICE void give_terms(const Params& p, const PartialPlace<Tile, Params>& place, int owner,
                                int group, const Accumulators& acc, int rows, int barrier,
                                std::uint32_t pace, std::uint32_t epoch, Trace trace) {
  constexpr int kOfBlock = GemmShape<Tile>::kAccumulators;
  constexpr int kValues = PartialShape<Tile>::kValues;
  const int thread = static_cast<int>(threadIdx.x) & 127;
  auto* to = reinterpret_cast<uint4*>(place.part(owner, p.call.rank, group)) + thread;
  const std::uint32_t begin = ptx::cycles();
#pragma unroll
  for (int i = 0; i < PartialShape<Tile>::kPieces; ++i) {
    if (8 * i / kOfBlock * 64 + thread / 32 * 16 >= rows) continue;
    ptx::sleep_until(begin, i * pace);
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
      v[e] = 8 * i + e < kValues ? acc[(8 * i + e) / kOfBlock][(8 * i + e) % kOfBlock] : 0.0F;
    if constexpr (Params::kWide) {
      auto* const wide = reinterpret_cast<float4*>(to + 2 * i * 128);
      wide[0] = {v[0], v[1], v[2], v[3]};
      wide[128] = {v[4], v[5], v[6], v[7]};
    } else {
      to[i * 128] = pack_elements<Element>(v);
    }
  }
  if (thread == 0) trace.add(TraceKind::written, static_cast<int>(threadIdx.x) / 128 - 1);
  publish({thread, 128}, barrier, place.flag(owner, p.call.rank, group), epoch);
}

/// Where the terms of an own tile come through, kTermBatches batches of a few pieces at once: a
/// group's staging, which holds no results from the tile's first products on until its terms are
/// added. In a last turn, behind which nobody multiplies, all but the first batches come through
/// the ring, where more are under way at once.
template <class Tile, class Params>
struct TermRoom {
  static constexpr int kPieceBytes = PartialShape<Tile, Params::kWide>::kPieceBytes;
  static constexpr int kInStaging = Tile::staging * kChunkBytes / kTermBatches / kPieceBytes;
  static constexpr int kInRing = 16384 / kPieceBytes;
  static_assert(kInStaging > 0 &&
                16384 * kTermBatches <= Tile::stages * GemmShape<Tile>::kStageBytes);
  GemmShared<Tile> shared;
  int group;
  bool last;

  [[nodiscard]] TILELACE_DEVICE bool in_ring(int batch) const {
    return Tile::pingpong && last && batch >= kTermBatches;
  }
  /// Of the batch, if as many are left.
  [[nodiscard]] TILELACE_DEVICE int pieces(int batch) const {
    return in_ring(batch) ? kInRing : kInStaging;
  }
  [[nodiscard]] TILELACE_DEVICE ptx::Shared at(int batch) const {
    const ptx::Shared base = in_ring(batch) ? shared.rows(0) : shared.staging(group);
    return base + batch % kTermBatches * pieces(batch) * kPieceBytes;
  }
  [[nodiscard]] TILELACE_DEVICE ptx::Shared full(int batch) const {
    return shared.terms_full(group, batch % kTermBatches);
  }
  /// Pieces of those behind it, up to the next one in its place.
  [[nodiscard]] TILELACE_DEVICE int under_way(int batch) const {
    int sum = 0;
#pragma unroll
    for (int i = 1; i < kTermBatches; ++i) sum += pieces(batch + i);
    return sum;
  }
  /// By a warp of the group: it needs what is in the batch's place no longer.
  TILELACE_DEVICE void release(int batch) const {
    if ((threadIdx.x & 31) == 0)
      ptx::barrier_arrive(shared.terms_empty(group, batch % kTermBatches));
  }
};

/// Verb of the admitting warp, for each tile of own rows: waits until all peers' terms are in the
/// slot and loads them for the group, or groups, that add them: of the first piece all peers' by
/// rank, then of the second, and so on.
template <class Tile, class Params>
class TermLoad {
  using Place = PartialPlace<Tile, Params>;
  using Room = TermRoom<Tile, Params>;

 public:
  TILELACE_DEVICE TermLoad(const Params& p, GemmShared<Tile> shared, int cta, std::uint32_t epoch)
      : p_(p), shared_(shared), cta_(cta), epoch_(epoch) {}

  TILELACE_DEVICE void load(schedule::GemmCell cell, schedule::GemmSegment s) {
    const int segment = segment_++;
    if (!p_.work.order.own(cell.section)) return;
    const Place place(p_, cell, cta_);
    if (!wait(place, cell, s.tile) && ptx::elect_one())
      ptx::store_shared_least(shared_.failed(), segment);
    proxy_fence_global();  // for whichever lane loads
    __syncwarp();
    if constexpr (Tile::pingpong) {
      const bool last = s.tile + p_.work.workers >= p_.work.order.tiles();
      load_group(place, {shared_, segment & 1, last}, segment & 1, 0);
    } else {
      for (int g = 0; g < Tile::groups; ++g) load_group(place, {shared_, g, false}, g, g);
    }
  }

 private:
  /// A lane a flag; false: a term never came.
  TILELACE_DEVICE bool wait(const Place& place, schedule::GemmCell cell, int tile) const {
    bool here = true;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const Trace trace(p_, shared_.trace());
    if (lane == 0) trace.add(TraceKind::wait_terms, kAdmitLane, tile);
    const int source = lane / Place::kGroups;
    const int group = lane % Place::kGroups;
    if (source < p_.work.order.ranks && source != p_.call.rank) {
      const auto index = static_cast<std::uint32_t>(place.number(source) * Place::kGroups + group);
      const WaitPlace at{Role::reduce, cell.section, cell.col, source, index};
      here = cuda::wait(p_.call.wait, at, place.flag(p_.call.rank, source, group), epoch_) ==
             comm::WaitStatus::reached;
      trace.add(TraceKind::term, kAdmitLane, 16 * tile + source);
    }
    return __all_sync(~0U, here ? 1 : 0) != 0;
  }

  /// `part`: of the tile, which the group adds.
  TILELACE_DEVICE void load_group(const Place& place, Room room, int group, int part) {
    const int first = p_.call.rank == 0 ? 1 : 0;
    int source = first;
    int offset = 0;
    int left = Place::kPieces * (p_.work.order.ranks - 1);
#pragma unroll 1
    for (int batch = 0; left > 0; ++batch) {
      const int count = min(room.pieces(batch), left);
      left -= count;
      const int slot = batch % kTermBatches;
      const int bit = group * kTermBatches + slot;
      ptx::barrier_wait(shared_.terms_empty(group, slot), static_cast<int>(parities_ >> bit & 1U));
      parities_ ^= 1U << bit;
      const ptx::Shared full = room.full(batch);
      ptx::Shared to = room.at(batch);
      if (ptx::elect_one()) ptx::barrier_expect(full, count * Place::kPieceBytes);
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const std::byte* const from = place.part(p_.call.rank, source, part) + offset;
        if (ptx::elect_one()) bulk_load(to, from, Place::kPieceBytes, full);
        to += Place::kPieceBytes;
        source += source + 1 == p_.call.rank ? 2 : 1;
        if (source < p_.work.order.ranks) continue;
        source = first;
        offset += Place::kPieceBytes;
      }
    }
  }

  const Params& p_;
  GemmShared<Tile> shared_;
  int cta_;
  std::uint32_t epoch_;
  int segment_ = 0;
  std::uint32_t parities_ = 0;  ///< of terms_empty's next phases, a bit each
};

/// A group's reading end of TermLoad, for one tile whose first batches it has asked for.
template <class Element, class Tile, class Params>
class TermStream {
  using Shape = PartialShape<Tile, Params::kWide>;
  using Room = TermRoom<Tile, Params>;

 public:
  using Piece = TermPiece<Element, Params::kWide>;

  /// The places of the first batches are free. By the group's warps.
  TILELACE_DEVICE static void ask(Room room, int peers) {
#pragma unroll
    for (int i = 0; i < kTermBatches; ++i)
      if (i * Room::kInStaging < Shape::kPieces * peers) room.release(i);
  }

  /// `parities`: of the full batches' next phases, a bit each.
  TILELACE_DEVICE TermStream(Room room, int peers, std::uint32_t& parities)
      : room_(room), parities_(parities), unread_(Shape::kPieces * peers) {
    if (unread_ > 0) turn();
    read();
  }

  /// Beside products a load from shared memory takes long: the next one is under way already.
  TILELACE_DEVICE Piece next() {
    const Piece piece = ahead_;
    if (left_ == 0 && unread_ > 0) {
      __syncwarp();
      if (unread_ > room_.under_way(batch_)) room_.release(batch_);
      turn();
    }
    if (left_ > 0) read();
    return piece;
  }

 private:
  TILELACE_DEVICE void read() {
    ahead_.load(at_);
    at_ += Shape::kPieceBytes;
    --left_;
  }
  TILELACE_DEVICE void turn() {
    ++batch_;
    const int slot = batch_ % kTermBatches;
    ptx::barrier_wait(room_.full(batch_), static_cast<int>(parities_ >> slot & 1U));
    parities_ ^= 1U << slot;
    at_ = room_.at(batch_) + (static_cast<int>(threadIdx.x) & 127) * 16;
    left_ = min(room_.pieces(batch_), unread_);
    unread_ -= left_;
  }

  Room room_;
  std::uint32_t& parities_;
  int unread_;      ///< behind the batch that is being read
  int batch_ = -1;  ///< that is being read
  int left_ = 0;    ///< of it
  ptx::Shared at_ = 0;
  Piece ahead_;
};

/// The end of a gemm_ar, by the loading warp: all CTAs together wait until every tile that peers
/// finished is here.
template <class Tile>
TILELACE_DEVICE void await_shared(const GemmArParams& p, std::uint32_t epoch) {
  const schedule::ShareOrder& order = p.work.order;
  const auto* flags = reinterpret_cast<const comm::Flag*>(
                          p.call.base + p.call.rank * p.call.stride + p.call.flags) +
                      p.first_shared;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  // All sections' tiles in one row, dealt to all lanes: few have more than one flag to wait for.
  int skip = static_cast<int>(blockIdx.x) * 32 + lane;
  for (int s = 0; s < order.count; ++s) {
    if (order.own(s)) continue;
    const int owner = order.section[s].owner;
    const int first = order.first_partial(owner, s) * GemmShape<Tile>::kCluster;
    const int parts = order.tile_rows[s] * order.cols * GemmShape<Tile>::kCluster;
    for (; skip < parts; skip += static_cast<int>(gridDim.x) * 32) {
      const int i = first + skip;
      const WaitPlace place{Role::copy, s, -1, owner, static_cast<std::uint32_t>(i)};
      if (wait(p.call.wait, place, flags + i, epoch) != comm::WaitStatus::reached) return;
    }
    skip -= parts;
  }
}

}  // namespace tilelace::cuda
