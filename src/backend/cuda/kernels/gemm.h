// SPDX-License-Identifier: Apache-2.0
// The GEMM of sm_90a: out[m, n] = activation(a[m, k] * w[n, k]^T + bias), fp32 accumulation.
// Persistent CTAs in clusters; warpgroup 0 loads (its first warp), the others multiply. The order
// of tiles and the sharing of k-steps are the schedule's (schedule/gemm.h). With AgGemmParams the
// rows of a come from the peers, with GemmRsParams terms of the sums: the loading warp waits for
// them, another one for the peers' headers; the other two send own rows, if copy engines do not.
// With GemmGatedParams and AgGemmGatedParams out = silu(a * gate^T + bias) * (a * up^T + up_bias).
#pragma once
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/gemm_gather.h"
#include "backend/cuda/kernels/gemm_load.h"
#include "backend/cuda/kernels/gemm_math.h"
#include "backend/cuda/kernels/gemm_push.h"

namespace tilelace::cuda {

template <class Tile, class Params>
TILELACE_DEVICE void start_ring(const Params& p, GemmShared<Tile> shared) {
  if (threadIdx.x == 32) {
    ptx::prefetch_map(&p.rows);
    ptx::prefetch_map(&p.cols);
    ptx::prefetch_map(out_map(p, 0));
    if (kOutWidth<Tile, Params> % 64 != 0) ptx::prefetch_map(rest_map(p, 0));
    if constexpr (Params::kGates) ptx::prefetch_map(&p.up);
    if constexpr (Params::kGathers) ptx::prefetch_map(&p.own);
  }
  if (threadIdx.x == 0) {
    // A stage is free again when all warpgroups of all CTAs that read from it have let go.
    constexpr int kReaders =
        (Tile::cluster_rows + Tile::cluster_cols - 1) * (Tile::pingpong ? 1 : Tile::groups);
    for (int i = 0; i < Tile::stages; ++i) {
      ptx::barrier_init(shared.full(i), 1);
      ptx::barrier_init(shared.empty(i), kReaders);
    }
    if constexpr (Params::kGathers || Params::kReduces) init_gate(shared);
    ptx::barrier_init_fence();
    Trace(p, shared.trace()).begin(kLoadLane);
  }
  if constexpr (GemmShape<Tile>::kCluster > 1)
    ptx::cluster_sync();
  else
    __syncthreads();
}

template <class Tile, class Element, class Params>
TILELACE_DEVICE void run_gemm(const Params& p) {
  extern __shared__ __align__(1024) std::uint8_t memory[];
  GemmShared<Tile> shared{ptx::shared_address(memory)};
  asm("" : "+r"(shared.base));  // computed once, not wherever it is used
  const auto place = Place<Tile>::here(p.places);
  constexpr bool kWaits = Params::kGathers || Params::kReduces;
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  start_ring(p, shared);
  ptx::launch_dependents();
  if (warpgroup == 0) {
    if constexpr (GemmShape<Tile>::kMovesRegisters)
      ptx::registers_less<GemmShape<Tile>::load_registers(kWaits)>();
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      GemmLoad<Tile, Params> load(p, shared, place);
      schedule::run_gemm_load(p.work, place.worker, load);
      load.finish();
    }
    if constexpr (kWaits)
      if (warp == 1) admit(p, shared);
    if constexpr (Params::kGathers)
      if (warp >= 2) {
        if constexpr (GemmShape<Tile>::kPushes)
          push_rows(p);
        else
          // stays: the barrier counts these threads
          ptx::arrive_threads(kNumberBarrier, kNumberThreads);
      }
    if constexpr (kTraced && Params::kGathers)
      if (warp == 2 && blockIdx.x == 0) watch_rows(p, shared);
  } else {
    if constexpr (GemmShape<Tile>::kMovesRegisters)
      ptx::registers_more<GemmShape<Tile>::math_registers(kWaits)>();
    ptx::wait_prerequisites();
    GemmMath<Tile, Element, Params> math(p, shared, place, warpgroup - 1);
    schedule::run_gemm_math(p.work, place.worker, Tile::pingpong ? warpgroup - 1 : 0,
                            GemmShape<Tile>::kTurns, math);
    math.finish();
    if constexpr (Params::kShares)
      if (!p.direct) collect_shared(p, shared);
  }
}

template <class Tile, class Element, class Params>
__global__ void __launch_bounds__(GemmShape<Tile>::kThreads, Tile::per_sm)
    gemm_kernel(const __grid_constant__ Params p) {
  run_gemm<Tile, Element>(p);
}

}  // namespace tilelace::cuda
