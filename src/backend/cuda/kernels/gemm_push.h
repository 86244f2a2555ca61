// SPDX-License-Identifier: Apache-2.0
// What the idle warps of ag_gemm's GEMM do under transport `store`: they send this rank's rows.
#pragma once
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/kernels/gemm_gate.h"

namespace tilelace::cuda {

constexpr int kPushThreads = 64;
constexpr int kPushBarrier = 8;

/// Verbs of PushOrder, by two warps of every CTA.
struct PushVerbs {
  const AgGemmParams& p;
  std::uint32_t epoch;
  Crew crew{static_cast<int>(threadIdx.x) - 64, kPushThreads};

  TILELACE_DEVICE std::byte* at(int rank) const { return p.call.base + rank * p.call.stride; }
  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last, int slice) const {
    std::byte* const to = at(peer) + p.staged + p.push.begin * p.row_bytes;
    // Where there is one slice, its rows lie one after the other.
    const bool sliced = p.push.slices > 1;
    const std::int64_t apart = sliced ? p.row_bytes : (last - first) * p.row_bytes;
    std::int64_t bytes = apart;
    if (sliced) bytes = min(p.slice_bytes, p.row_bytes - slice * p.slice_bytes);
    std::int64_t offset = first * p.row_bytes + slice * p.slice_bytes;
    for (std::int64_t row = first; row < last; row = sliced ? row + 1 : last, offset += apart)
      copy_by_threads(crew, to + offset, p.input + offset, static_cast<std::size_t>(bytes));
  }
  TILELACE_DEVICE void signal(int peer, int flag) const {
    publish(crew, kPushBarrier, reinterpret_cast<comm::Flag*>(at(peer) + p.call.flags) + flag,
            epoch);
  }
};

TILELACE_DEVICE void push_rows(const AgGemmParams& p) {
  ptx::wait_prerequisites();
  PushVerbs verbs{p, call_number(p.call)};
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  p.push.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), verbs);
}

}  // namespace tilelace::cuda
