// SPDX-License-Identifier: Apache-2.0
// Whether results of a call among ranks may be stored: not before every peer has said that it makes
// the same call, and none that a failed wait has spoilt. A wait that fails never stops the kernel.
#pragma once
#include <climits>

#include "backend/cuda/device/call.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

template <class Params>
TILELACE_DEVICE const CUtensorMap* out_map(const Params& p, int section) {
  if constexpr (Params::kGathers)
    return p.out + section;
  else if constexpr (Params::kShares)
    return p.out;
  else
    return &p.out;
}
template <class Params>
TILELACE_DEVICE const CUtensorMap* rest_map(const Params& p, int section) {
  if constexpr (Params::kGathers)
    return p.out_rest + section;
  else if constexpr (Params::kShares)
    return p.out_rest;
  else
    return &p.out_rest;
}

template <class Tile>
TILELACE_DEVICE void init_gate(GemmShared<Tile> shared) {
  ptx::barrier_init(shared.admitted(), 1);
  ptx::store_shared(shared.failed(), INT_MAX);
}

/// Whether the results of the CTA's i-th segment may be stored; the same to all threads. Waits for
/// the admission.
template <class Tile>
TILELACE_DEVICE bool may_store(GemmShared<Tile> shared, int segment) {
  ptx::barrier_wait(shared.admitted(), 0);  // stays: `failed` alone; terms' flags order the rest
  return ptx::load_shared(shared.failed()) > segment;
}

/// The call's number, for threads that have passed the admission.
template <class Tile>
TILELACE_DEVICE std::uint32_t admitted_number(GemmShared<Tile> shared) {
  ptx::barrier_wait(shared.admitted(), 0);
  return static_cast<std::uint32_t>(ptx::load_shared(shared.number()));
}

/// The call is counted once all warps that ask for its number have it: the one that admits and, of
/// ag_gemm, the loading one and two that send rows.
constexpr int kNumberBarrier = 7;
constexpr int kNumberThreads = 128;

/// Verb admit, by one warp.
template <class Tile, class Params>
TILELACE_DEVICE void admit(const Params& p, GemmShared<Tile> shared) {
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  if (p.call.first && blockIdx.x == 0) send_headers(p.call, epoch);
  const Trace trace(p, shared.trace());
  if (threadIdx.x % 32 == 0) trace.add(TraceKind::headers, kAdmitLane);
  if (Params::kGathers) ptx::sync_threads(kNumberBarrier, kNumberThreads);
  const bool leader = (threadIdx.x & 31) == 0;
  if (!Params::kGathers) __syncwarp();  // all lanes have the number
  if (leader && p.call.last) count_call(p.call, epoch);
  const bool good = wait_admission(p.call, epoch);
  if (!leader) return;
  trace.add(TraceKind::admitted, kAdmitLane);
  ptx::store_shared(shared.number(), static_cast<int>(epoch));
  if (!good) ptx::store_shared_least(shared.failed(), 0);
  ptx::barrier_arrive(shared.admitted());
}

}  // namespace tilelace::cuda
