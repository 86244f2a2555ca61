// SPDX-License-Identifier: Apache-2.0
// Partials for other ranks. A tile of a peer's rows is stored from registers directly into that
// peer's slot, in the accumulator's layout (pieces of eight values from each thread of a group).
// Only the peer's kernel reads a partial, for the same tile and with the same layout.
#pragma once
#include "backend/cuda/device/call_params.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"
#ifdef __CUDACC__
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/publish.h"
#endif

namespace tilelace::cuda {

/// Parameters that gemm_rs and gemm_ar need for partials. Each op adds its own order of tiles.
struct PartialParams : GemmOperands {
  CallParams call;
  const void* residual;  ///< [own_rows, n] or null; added to the sum
  int own_rows;
  /// Offset of the slot's partials. There is one for each source rank, tile and CTA. A partial has
  /// one flag per math group; the flags begin at call.flags.
  std::size_t partials;
  std::uint32_t pace;  ///< pause between sends of pieces, in 1/16384 of a tile's MMA time
  int term_pieces;     ///< pieces per peer and group in a ring stage with peers' partials
  int term_steps;      ///< number of such stages that follow the k-steps of an own tile
};

#ifdef __CUDACC__

/// Finds a tile's partial and its flags, from any source rank, in any rank's slot.
template <class Body, class Params>
class PartialPlace {
  using Sizes = typename Body::Partial;

 public:
  static constexpr int kGroups = Sizes::kGroups;
  static constexpr int kPieces = Sizes::kPieces;
  static constexpr int kPieceBytes = Sizes::kPieceBytes;

  TILELACE_DEVICE PartialPlace(const Params& p, schedule::GemmCell cell, int cta)
      : p_(p), cell_(cell), cta_(cta) {}

  [[nodiscard]] TILELACE_DEVICE int number(int source) const {
    return p_.work.order.partial(source, cell_) * Body::Shape::kCluster + cta_;
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

/// Eight values of a term (a peer's partial), which one thread loads from the ring as a piece.
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

/// Sends the accumulator of a group, rounded, to the owner of the tile's rows. `tokens`: number of
/// tokens from the group's first token to the end of the shard. Pieces leave with pauses of `pace`
/// cycles, since a burst from all CTAs would fill the path to memory and delay loads of operands
/// for warps that multiply meanwhile.
template <class Body, class Params, class Accumulators>
TILELACE_DEVICE void send_partial(const Params& p, const PartialPlace<Body, Params>& place,
                                  int owner, int group, const Accumulators& acc, int tokens,
                                  int barrier, std::uint32_t pace, std::uint32_t epoch,
                                  Trace trace) {
  using Element = typename Body::Element;
  using Sizes = typename Body::Partial;
  constexpr int kOfBlock = Sizes::kOfBlock;
  const int thread = static_cast<int>(threadIdx.x) & 127;
  auto* to = reinterpret_cast<uint4*>(place.part(owner, p.call.rank, group)) + thread;
  const std::uint32_t begin = ptx::cycles();
#pragma unroll
  for (int i = 0; i < Sizes::kPieces; ++i) {
    if (Sizes::first_token(i, thread / 32) >= tokens) continue;
    ptx::sleep_until(begin, i * pace);
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
      v[e] =
          8 * i + e < Sizes::kValues ? acc[(8 * i + e) / kOfBlock][(8 * i + e) % kOfBlock] : 0.0F;
    to[i * 128] = pack_elements<Element>(v);
  }
  if (thread == 0) trace.add(TraceKind::written, static_cast<int>(threadIdx.x) / 128 - 1);
  publish({thread, 128}, barrier, place.flag(owner, p.call.rank, group), epoch);
}

#endif  // __CUDACC__

}  // namespace tilelace::cuda
