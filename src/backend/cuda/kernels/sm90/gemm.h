// SPDX-License-Identifier: Apache-2.0
// The GEMM of sm_90a: out[m, n] = a[m, k] * w[n, k]^T with fp32 accumulation, then the op's
// epilogue. CTAs are persistent and form clusters. In warpgroup 0 the first warp loads, and the
// other warps are for the op; all other warpgroups multiply. schedule/gemm.h has the order of tiles
// and the sharing of k-steps. An op adds its part as a policy (docs/kernels.md).
#pragma once
#include "backend/cuda/kernels/sm90/load.h"
#include "backend/cuda/kernels/sm90/math.h"

namespace tilelace::cuda {

template <class Op, class Tile>
TILELACE_DEVICE void start_ring(const typename Op::Params& p, GemmShared<Tile> shared) {
  if (threadIdx.x == 32) {
    ptx::prefetch_map(&p.rows);
    ptx::prefetch_map(&p.cols);
    Op::prefetch(p);
  }
  if (threadIdx.x == 0) {
    // A stage is refilled once all groups that read its operands, in all CTAs, have released it.
    constexpr int kReaders =
        (Tile::cluster_rows + Tile::cluster_cols - 1) * (Tile::pingpong ? 1 : Tile::groups);
    for (int i = 0; i < Tile::stages; ++i) {
      ptx::barrier_init(shared.full(i), 1);
      ptx::barrier_init(shared.empty(i), kReaders);
    }
    Op::init(shared);
    ptx::barrier_init_fence();
    Trace(p, shared.trace()).begin(kLoadLane);
  }
  if constexpr (GemmShape<Tile>::kCluster > 1)
    ptx::cluster_sync();
  else
    __syncthreads();
}

template <class Op>
TILELACE_DEVICE void run_gemm(const typename Op::Params& p) {
  using Tile = typename Op::Body::Tile;
  using Shape = GemmShape<Tile>;
  extern __shared__ __align__(1024) std::uint8_t memory[];
  GemmShared<Tile> shared{ptx::shared_address(memory)};
  asm("" : "+r"(shared.base));  // keeps the compiler from computing it again at each use
  const auto place = ClusterPlace<Tile>::here(p.places);
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  start_ring<Op>(p, shared);
  ptx::launch_dependents();
  if (warpgroup == 0) {
    if constexpr (Shape::kMovesRegisters) ptx::registers_less<Op::kLoadRegisters>();
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
      GemmLoad<Op> load(p, shared, place);
      schedule::run_gemm_load(p.work, place.worker, load);
      load.finish();
    }
    Op::spare_warp(p, shared, place, warp);
  } else {
    if constexpr (Shape::kMovesRegisters) ptx::registers_more<(504 - Op::kLoadRegisters) / 2>();
    ptx::wait_prerequisites();
    Op::before_products(p);
    GemmMath<Op> math(p, shared, place, warpgroup - 1);
    math.run();
  }
}

template <class Op>
__global__ void __launch_bounds__(GemmShape<typename Op::Body::Tile>::kThreads,
                                  Op::Body::Tile::per_sm)
    gemm_kernel(const __grid_constant__ typename Op::Params p) {
  run_gemm<Op>(p);
}

}  // namespace tilelace::cuda
