// SPDX-License-Identifier: Apache-2.0
// Whether results of a call among ranks may be stored: not before every peer has said that it makes
// the same call, and none that a failed wait has spoilt. A wait that fails never stops the kernel.
#pragma once
#include <climits>

#include "backend/cuda/device/headers.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

template <class Params>
TILELACE_DEVICE const CUtensorMap* out_map(const Params& p, int section) {
  if constexpr (Params::kGathers)
    return p.out + section;
  else
    return &p.out;
}
template <class Params>
TILELACE_DEVICE const CUtensorMap* rest_map(const Params& p, int section) {
  if constexpr (Params::kGathers)
    return p.out_rest + section;
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
  ptx::barrier_wait(shared.admitted(), 0);
  return ptx::load_shared(shared.failed()) > segment;
}

/// Verb admit, by one warp.
template <class Tile, class Params>
TILELACE_DEVICE void admit(const Params& p, GemmShared<Tile> shared) {
  ptx::wait_prerequisites();
  const bool good = wait_headers(p.call.wait, p.call.headers, p.call.rank, p.work.order.ranks,
                                 *p.call.epoch, p.call.hash);
  if ((threadIdx.x & 31) != 0) return;
  if (!good) ptx::store_shared_least(shared.failed(), 0);
  ptx::barrier_arrive(shared.admitted());
}

}  // namespace tilelace::cuda
