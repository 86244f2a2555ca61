// SPDX-License-Identifier: Apache-2.0
// How ag_gemm's kernel sends this rank's rows with transport `store`: idle warps of all CTAs do.
#pragma once
#include "backend/cuda/device/transfer_threads.h"
#include "backend/cuda/kernels/gathered_rows.h"

namespace tilelace::cuda {

constexpr int kPushThreads = 64;
constexpr int kPushBarrier = 8;

/// The verbs of PushOrder::run, for two warps of every CTA.
template <class Params>
struct PushVerbs {
  const Params& p;
  std::uint32_t epoch;
  Crew crew{static_cast<int>(threadIdx.x) - 64, kPushThreads};

  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last) const {
    std::byte* const to = p.call.memory_at(peer) + p.staged + (p.push.begin + first) * p.row_bytes;
    copy_by_threads(crew, to, p.input + first * p.row_bytes,
                    static_cast<std::size_t>((last - first) * p.row_bytes));
  }
  TILELACE_DEVICE void signal(int peer, int flag) const {
    publish(crew, kPushBarrier, p.call.flags_at(peer) + flag, epoch);
  }
};

template <class Params>
TILELACE_DEVICE void push_rows(const Params& p) {
  ptx::wait_prerequisites();
  PushVerbs<Params> verbs{p, call_number(p.call)};
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  p.push.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), verbs);
}

}  // namespace tilelace::cuda
