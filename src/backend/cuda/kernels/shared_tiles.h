// SPDX-License-Identifier: Apache-2.0
// Tiles of gemm_ar that one rank finishes for all ranks: how it tells its peers, and how a rank
// waits for tiles that peers finish.
#pragma once
#include "backend/cuda/device/collect.h"
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/kernels/admission.h"
#include "schedule/share_order.h"

namespace tilelace::cuda {

/// Tells peers of the last tile that was stored at all ranks, once its stores have arrived.
/// `pending`: number of the tile's flag. Runs after the next tile's MMAs, during which the stores
/// arrive. The whole warp of the thread that stored takes part, since a divergent branch here would
/// make ptxas reconverge the warp in every step of the main loop.
template <class Params, class Shared, class Math>
TILELACE_DEVICE void signal_shared(const Params& p, Shared shared, Math& math, int& pending) {
  const int number = pending;
  pending = -1;
  if (math.warp() != 0 || __shfl_sync(~0U, number, 0) < 0) return;
  const std::uint32_t epoch = admitted_number(shared);
  if (math.thread() == 0) bulk_complete();
  __syncwarp();
  // Each peer has a lane of its own, so that no release waits for another peer's flag.
  const int own = __shfl_sync(~0U, number, 0);
  const int lane = math.lane();
  const int peer = (p.call.rank + lane) % p.call.ranks;
  std::byte* const flags = p.call.base + peer * p.call.stride + p.call.flags;
  if (lane > 0 && lane < p.call.ranks)
    signal(reinterpret_cast<comm::Flag*>(flags) + p.shared.flags.first_shared + own, epoch);
  math.note(TraceKind::told);
}

/// The end of a gemm_ar whose results are in slots. The warpgroups that multiplied, of all CTAs
/// together, copy peers' finished tiles to the caller. The warpgroups need not be in step.
template <class Body, class Params>
TILELACE_DEVICE void collect_shared(const Params& p, typename Body::Shared shared) {
  const std::uint32_t epoch = admitted_number(shared);
  if (!may_store(shared, INT_MAX - 1)) return;
  const Crew crew{ptx::thread_again() - 128, 128 * Body::Tile::groups};
  Collect collect(p.call, p.work.order, p.shared, p.n, crew, epoch);
  schedule::run_collect(p.work.order, p.shared.flags, static_cast<int>(blockIdx.x),
                        static_cast<int>(gridDim.x), collect);
}

/// The end of a direct gemm_ar. The loading warps of all CTAs together wait until all tiles that
/// peers finish have arrived.
template <class Params>
TILELACE_DEVICE void await_shared(const Params& p, std::uint32_t epoch) {
  const schedule::ShareOrder& order = p.work.order;
  const auto* flags = reinterpret_cast<const comm::Flag*>(
                          p.call.base + p.call.rank * p.call.stride + p.call.flags) +
                      p.shared.flags.first_shared;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  // The flags of all sections are spread over all lanes, so that few lanes wait for several flags.
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
