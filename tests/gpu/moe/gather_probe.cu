// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/async_copy.h"
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/kernels/sm90/ring.h"
#include "moe/gather_probe.h"
#include "wgmma_shapes.h"

namespace tilelace::gpu_test {
namespace {

namespace ptx = cuda::ptx;
using Element = __nv_bfloat16;

constexpr int kStep = 64, kRowBytes = 128, kChunk = 16, kBlock = 64;
constexpr int kMultiplying = 256;  ///< threads: two groups

/// kLoaders: threads that copy rows; 0: boxes. kWeights, kProduct: whether they are there, too.
template <int kWeightOf, int kRowsOf, int kLoadersOf, bool kWeightsAre, bool kProductIs>
struct Probe {
  static constexpr int kWeight = kWeightOf, kRows = kRowsOf, kLoaders = kLoadersOf;
  static constexpr bool kWeights = kWeightsAre, kProduct = kProductIs;
  static constexpr int kLoading = kLoaders > 128 ? 256 : 128;
  static constexpr int kThreads = kLoading + kMultiplying;
  static constexpr int kStageBytes = (kWeight + kRows) * kRowBytes, kStages = 4;
  static constexpr int kBlocks = kWeight / kBlock / 2;  ///< of a group
  struct Shared {
    std::uint8_t ring[kStages][kStageBytes];
    std::uint64_t full[kStages], empty[kStages];
    int index[kRows];
  };
};

template <class P>
__device__ void load(const ProbeParams& p, typename P::Shared& shared, int thread,
                     cuda::Ring<P::kStages>& ring) {
  const int first = shared.index[0] / P::kRows * P::kRows;
  for (int x = 0; x < p.k; x += kStep) {
    ptx::barrier_wait(ptx::shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
    const ptx::Shared full = ptx::shared_address(&shared.full[ring.stage]);
    std::uint8_t* const stage = shared.ring[ring.stage];
    if (thread == 0) {
      constexpr int kBytes = (P::kWeights ? P::kWeight * kRowBytes : 0) +
                             (P::kLoaders == 0 ? P::kRows * kRowBytes : 0);
      ptx::barrier_expect(full, kBytes);
      for (int r = 0; P::kWeights && r < P::kWeight; r += 128)
        ptx::tensor_load(ptx::shared_address(stage + r * kRowBytes), &p.weight, full, x, r);
      for (int r = 0; P::kLoaders == 0 && r < P::kRows; r += 128)
        ptx::tensor_load(ptx::shared_address(stage + (P::kWeight + r) * kRowBytes), &p.rows, full,
                         x, first + r);
    }
    if constexpr (P::kLoaders > 0) {
#pragma unroll 8
      for (int i = thread; i < P::kRows * 8; i += P::kLoaders) {
        const int row = i / 8, chunk = i % 8;
        auto* const to = reinterpret_cast<uint4*>(stage + (P::kWeight + row) * kRowBytes +
                                                  ((chunk ^ (row & 7)) * kChunk));
        cuda::copy_later(to, reinterpret_cast<const uint4*>(
                                 p.x + std::int64_t{shared.index[row]} * p.k + x + chunk * 8));
      }
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full) : "memory");
    }
    ring.advance();
  }
}

template <class P>
__device__ void multiply(const ProbeParams& p, typename P::Shared& shared, int group,
                         cuda::Ring<P::kStages>& ring, float (&acc)[P::kBlocks][P::kRows / 2]) {
  const bool elected = threadIdx.x % 128 == 0;
  for (int x = 0; x < p.k; x += kStep) {
    ptx::barrier_wait(ptx::shared_address(&shared.full[ring.stage]), ring.parity);
    if constexpr (P::kProduct) {
      // What cp.async wrote is read by wgmma, which takes another way to shared memory.
      if (P::kLoaders > 0) ptx::fence_shared_to_copy();
      const ptx::Shared stage = ptx::shared_address(shared.ring[ring.stage]);
      const std::uint64_t weight = ptx::operand(stage + group * P::kBlocks * kBlock * kRowBytes);
      const std::uint64_t rows = ptx::operand(stage + P::kWeight * kRowBytes);
      ptx::wgmma_fence();
#pragma unroll
      for (int b = 0; b < P::kBlocks; ++b)
#pragma unroll
        for (int kk = 0; kk < kStep / 16; ++kk)
          cuda::Wgmma<Element, P::kRows>::multiply(acc[b],
                                                   weight + kBlock * kRowBytes / 16 * b + 2 * kk,
                                                   rows + 2 * kk, x != 0 || kk != 0);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
    }
    if (elected) ptx::barrier_arrive(ptx::shared_address(&shared.empty[ring.stage]));
    ring.advance();
  }
}

/// A thread's values of a group's blocks: two rows of the weight, two tokens of each eight.
template <class P>
__device__ void store(const ProbeParams& p, int group,
                      const float (&acc)[P::kBlocks][P::kRows / 2]) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  float* const out = p.out + std::int64_t{blockIdx.x} * P::kWeight * P::kRows;
#pragma unroll
  for (int b = 0; b < P::kBlocks; ++b)
#pragma unroll
    for (int i = 0; i < P::kRows / 2; ++i) {
      const int row =
          (group * P::kBlocks + b) * kBlock + thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
      out[row * P::kRows + i / 4 * 8 + thread % 4 * 2 + i % 2] = acc[b][i];
    }
}

template <class P>
__global__ void __launch_bounds__(P::kThreads, 1) probe(const __grid_constant__ ProbeParams p) {
  extern __shared__ __align__(1024) std::uint8_t memory[];
  auto& shared = *reinterpret_cast<typename P::Shared*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int i = 0; i < P::kStages; ++i) {
      ptx::barrier_init(ptx::shared_address(&shared.full[i]), 1 + P::kLoaders);
      ptx::barrier_init(ptx::shared_address(&shared.empty[i]), 2);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  cuda::Ring<P::kStages> ring;
  const bool multiplies = thread < kMultiplying;
  const int group = __shfl_sync(~0U, thread / 128, 0);
  const long long begin = clock64();
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles;
       tile += static_cast<int>(gridDim.x)) {
    __syncthreads();
    for (int i = thread; i < P::kRows; i += P::kThreads)
      shared.index[i] = p.index[tile * P::kRows + i];
    __syncthreads();
    if (multiplies) {
      float acc[P::kBlocks][P::kRows / 2];
      multiply<P>(p, shared, group, ring, acc);
      if (P::kProduct && P::kWeights && tile < static_cast<int>(gridDim.x)) store<P>(p, group, acc);
    } else if (thread - kMultiplying < (P::kLoaders > 0 ? P::kLoaders : 1)) {
      load<P>(p, shared, thread - kMultiplying, ring);
    }
  }
  __syncthreads();
  if (thread == 0) p.clocks[blockIdx.x] = clock64() - begin;
}

template <class P>
cudaError_t launch(const ProbeParams& p, int ctas) {
  constexpr int kBytes = static_cast<int>(sizeof(typename P::Shared));
  const cudaError_t status =
      cudaFuncSetAttribute(probe<P>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  probe<P><<<ctas, P::kThreads, kBytes>>>(p);
  return cudaDeviceSynchronize();
}

template <int kWeight, int kRows, int kLoaders>
void add(std::vector<ProbeWay>& ways) {
  const auto with = [&](auto probe) {
    using P = decltype(probe);
    ways.push_back({kWeight, kRows, kLoaders, P::kWeights, P::kProduct, launch<P>});
  };
  with(Probe<kWeight, kRows, kLoaders, false, false>{});
  with(Probe<kWeight, kRows, kLoaders, true, false>{});
  // More threads leave the groups that multiply too few registers.
  if constexpr (kLoaders <= 128) with(Probe<kWeight, kRows, kLoaders, true, true>{});
}

template <int kWeight, int kRows>
void add_shape(std::vector<ProbeWay>& ways) {
  add<kWeight, kRows, 0>(ways);
  add<kWeight, kRows, 96>(ways);
  add<kWeight, kRows, 128>(ways);
  add<kWeight, kRows, 256>(ways);
}

}  // namespace

const std::vector<ProbeWay>& probe_ways() {
  static const auto& all = *new std::vector<ProbeWay>([] {
    std::vector<ProbeWay> ways;
    add_shape<256, 128>(ways);
    add_shape<128, 256>(ways);
    return ways;
  }());
  return all;
}

}  // namespace tilelace::gpu_test
