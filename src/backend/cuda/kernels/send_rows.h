// SPDX-License-Identifier: Apache-2.0
// How ag_gemm's kernel sends this rank's rows with transport `store`. In a whole order no product
// can begin before rows of all ranks are here: until then the threads that multiply copy own rows,
// and warp 2 raises the flags. In an order by shard they multiply, so warps 2 and 3 copy.
#pragma once
#include "backend/cuda/device/transfer_threads.h"
#include "backend/cuda/kernels/gathered_rows.h"

namespace tilelace::cuda {

constexpr int kPushBarrier = 8;

/// Copies rows [first, last) of the own shard to the slot of `peer`.
template <int kBatch, class Params>
TILELACE_DEVICE void copy_own_rows(const Params& p, const Crew& crew, int peer, std::int64_t first,
                                   std::int64_t last) {
  std::byte* const to = p.call.memory_at(peer) + p.staged + (p.push.begin + first) * p.row_bytes;
  copy_by_threads<kBatch>(crew, to, p.input + first * p.row_bytes,
                          static_cast<std::size_t>((last - first) * p.row_bytes));
}

/// The verbs of PushOrder::run for a crew that copies rows and raises their flags.
template <class Params>
struct PushVerbs {
  const Params& p;
  Crew crew;
  std::uint32_t epoch;

  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last) const {
    copy_own_rows<4>(p, crew, peer, first, last);
  }
  TILELACE_DEVICE void signal(int peer, int flag) const {
    publish(crew, kPushBarrier, p.call.flags_at(peer) + flag, epoch);
  }
};
/// The same work by two parties: these threads copy, and a warp raises the flags (FlagVerbs). They
/// meet after each piece.
template <class Params>
struct CopyVerbs {
  const Params& p;
  Crew crew;

  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last) const {
    copy_own_rows<8>(p, crew, peer, first, last);
  }
  TILELACE_DEVICE void signal(int /*peer*/, int /*flag*/) const {
    ptx::sync_threads(kPushBarrier, crew.threads + 32);
  }
};
/// `crew`: all threads of both parties, with this warp's in front.
template <class Params>
struct FlagVerbs : PushVerbs<Params> {
  TILELACE_DEVICE void push(int /*peer*/, std::int64_t /*first*/, std::int64_t /*last*/) const {}
};

template <class Params, class Verbs>
TILELACE_DEVICE void run_pushes(const Params& p, Verbs verbs) {
  p.push.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), verbs);
}

/// For the threads that multiply, before their first product. `threads`: their number in a CTA.
template <class Params>
TILELACE_DEVICE void push_before_products(const Params& p, int threads) {
  if (p.work.order.whole)
    run_pushes(p, CopyVerbs<Params>{p, {static_cast<int>(threadIdx.x) - 128, threads}});
}
/// For warps 2 and 3. `multiplying`: number of the CTA's threads that multiply.
template <class Params>
TILELACE_DEVICE void push_by_spare_warps(const Params& p, int multiplying) {
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  const int thread = static_cast<int>(threadIdx.x) - 64;
  if (!p.work.order.whole)
    run_pushes(p, PushVerbs<Params>{p, {thread, 64}, epoch});
  else if (thread < 32)
    run_pushes(p, FlagVerbs<Params>{{p, {thread, multiplying + 32}, epoch}});
}

}  // namespace tilelace::cuda
