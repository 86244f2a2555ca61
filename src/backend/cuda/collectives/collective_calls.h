// SPDX-License-Identifier: Apache-2.0
// Collectives without a GEMM on GPUs. They have slots, flags and a count of calls of their own, so
// that prepare of other ops leaves them as they are and no other op writes to their staging.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/rank/rank_calls.h"
#include "backend/cuda/rank/reachable_tensor.h"
#include "plan/collectives/norm.h"

namespace tilelace::cuda {

/// The caller's tensors and stream for a collective, and two 32-bit words in device memory.
struct CollectiveTensors {
  const void* in = nullptr;
  void* out = nullptr;
  cudaStream_t stream = nullptr;
  ReachableTensor reachable = {};      ///< direct call: `out`, if peers store to it
  ReachableTensor inputs = {};         ///< direct sum: `in`, which peers read
  const std::int32_t* word = nullptr;  ///< word, wrong: as in ExchangeParams
  const std::int32_t* wrong = nullptr;
};

/// For a call that can be direct (without staging): sets t.inputs = in() and t.reachable = out() if
/// peers use these tensors, and returns whether peers can reach them. Other calls: false.
template <class In, class Out>
bool reach_peers(const plan::CollectiveCall& call, CollectiveTensors& t, const In& in,
                 const Out& out) {
  const auto needs = plan::direct_needs(call);
  if (!needs) return false;
  if (needs->in) t.inputs = in();
  if (needs->out) t.reachable = out();
  return (!needs->in || t.inputs.base != nullptr) && (!needs->out || t.reachable.base != nullptr);
}

/// One rank's collectives on one communicator. Calls allocate nothing.
class CollectiveCalls {
 public:
  /// Allocates staging, for calls of any size. Collective; `group` must outlive this object.
  /// Errors: usage (more than 8 ranks), system, peer, timeout.
  CollectiveCalls(comm::Group& group, int device, double timeout_s, const RankShare& share);

  /// Enqueues a call. May be captured. Errors: usage, system.
  void run(const plan::CollectiveCall&, const plan::CollectivePlan&, const CollectiveTensors&);
  /// Enqueues an all_reduce_norm, on the stream of its arguments.
  void run(const plan::NormCall&, const plan::CollectivePlan&, const AllReduceNormArgs&);

  /// The machine that plans are made for.
  [[nodiscard]] plan::CollectiveMachine machine(int architecture) const {
    return {.workers = calls.fit_ctas(calls.multiprocessors()),
            .architecture = architecture,
            .shared = calls.shares_device()};
  }

  RankCalls calls;

 private:
  void enqueue_piece(const plan::CollectiveCall&, const plan::CollectivePlan&,
                     const CollectiveTensors&, plan::Index piece);
  /// Begins a call: fills in the call's places in the slot and returns the kernel's Start.
  Start enter(ExchangeParams&, const plan::CollectivePlan&, const CallName&, int ctas,
              cudaStream_t);
};

}  // namespace tilelace::cuda
