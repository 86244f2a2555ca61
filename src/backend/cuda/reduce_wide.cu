// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce_wide.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;
using schedule::SumChunk;

constexpr int kThreads = 256;
/// Ranks, and units that are delivered, whose loads are under way together.
constexpr int kTerms = 4;

/// Verbs of run_reduce_rows, for a CTA.
template <class Element>
class WideVerbs {
 public:
  TILELACE_DEVICE WideVerbs(const WideSum& p, std::uint32_t epoch)
      : p_(p), flags_(p.call, epoch, p.schedule.max_chunks) {}

  TILELACE_DEVICE void reduce(const SumChunk& c) {
    if (flags_.failed()) return;
    for (Index at = c.units.begin + thread(); at < c.units.end; at += kThreads) {
      float sum[8] = {};
      for (int first = 0; first < p_.schedule.ranks; first += kTerms) add(sum, first, at);
      store(finish_sum<Element>(p_, sum, at), at);
    }
    flags_.wrote();
  }

  TILELACE_DEVICE void signal(int peer, Index flag) { flags_.signal(peer, flag); }
  TILELACE_DEVICE void wait(Index flag) { flags_.wait(flag); }

  TILELACE_DEVICE void deliver(const SumChunk& c) {
    if (!flags_.settle()) return;
    const auto* const from = reinterpret_cast<const uint4*>(at(p_.call.rank) + p_.results);
    deliver_sums<kThreads, kTerms>(p_, from, c);
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE std::byte* at(int rank) const { return p_.call.memory_at(rank); }
  TILELACE_DEVICE uint4& out(Index unit) const {
    return reinterpret_cast<uint4*>(p_.out)[unit - p_.out_begin];
  }

  /// Adds the terms of up to kTerms ranks, in rank order.
  TILELACE_DEVICE void add(float (&sum)[8], int first, Index unit) const {
    uint4 v[kTerms][2];
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (first + t < p_.schedule.ranks)
          v[t][half] =
              __ldcg(reinterpret_cast<const uint4*>(at(first + t) + p_.partials) + 2 * unit + half);
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (first + t < p_.schedule.ranks) add_floats(sum + 4 * half, v[t][half]);
  }

  TILELACE_DEVICE void store(const uint4& done, Index unit) const {
    out(unit) = done;
    if (!p_.schedule.share) return;
    for (int i = 1; i < p_.schedule.ranks; ++i) {
      const int peer = (p_.call.rank + i) % p_.schedule.ranks;
      reinterpret_cast<uint4*>(at(peer) + p_.results)[unit] = done;
    }
  }

  const WideSum& p_;
  ChunkFlags flags_;
};

template <class Element>
__global__ void __launch_bounds__(kThreads) wide_kernel(const __grid_constant__ WideSum p) {
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  if (!enter_behind_product(p.call, epoch)) return;
  // Not before: what comes next must not take places while a peer's product may still need one.
  ptx::launch_dependents();
  WideVerbs<Element> verbs(p, epoch);
  schedule::run_reduce_rows(p.schedule, static_cast<int>(blockIdx.x), verbs);
}

}  // namespace

cudaError_t enqueue_wide_sum(const WideSum& sum, Start start, cudaStream_t stream) {
  return launch_sum(sum.dtype == DType::bf16 ? wide_kernel<__nv_bfloat16> : wide_kernel<__half>,
                    sum, kThreads, start, stream);
}

cudaError_t load_wide_sum() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, wide_kernel<__nv_bfloat16>);
  return status == cudaSuccess ? cudaFuncGetAttributes(&attributes, wide_kernel<__half>) : status;
}

}  // namespace tilelace::cuda
