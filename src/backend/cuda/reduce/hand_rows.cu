// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/landings.h"
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce/hand_rows.h"

namespace tilelace::cuda {
namespace {

using schedule::HandWay;
using schedule::Index;
using schedule::SumChunk;

constexpr int kThreads = 256;
/// Of a thread, that are under way together.
constexpr int kUnits = 4, kTerms = 8;

/// Verbs of run_hand_rows, for a CTA.
template <class Element, HandWay kWay>
class HandVerbs {
 public:
  TILELACE_DEVICE HandVerbs(const HandSum& p, std::uint32_t epoch)
      : p_(p), flags_(p.call, epoch, p.schedule.max_chunks) {}

  TILELACE_DEVICE void signal(int peer, Index flag) { flags_.signal(peer, flag); }
  TILELACE_DEVICE void wait(Index flag) { flags_.wait(flag); }

  /// Done where it is stored.
  TILELACE_DEVICE void reduce(const SumChunk& /*c*/) { adds_ = true; }

  TILELACE_DEVICE void store_partial(const SumChunk& c, int peer) {
    const bool adds = adds_;
    adds_ = false;
    if (!flags_.settle()) return;
    if constexpr (kWay == HandWay::added)
      add_by_threads<kAdds<Element>>({thread(), kThreads},
                                     at(peer) + p_.partials + bytes(c.units.begin),
                                     own_partial(c.units.begin), bytes(c.units.size()));
    else
      hand(c, peer, adds);
    flags_.wrote();
  }

  TILELACE_DEVICE void store(const SumChunk& c) {
    adds_ = false;
    if (!flags_.settle()) return;
    for (Index i = c.units.begin + thread(); i < c.units.end; i += kThreads) {
      float sum[8] = {};
      if constexpr (kWay == HandWay::copied) {
        for (int first = 0; first < p_.schedule.ranks; first += kTerms) add_terms(sum, first, i, c);
      } else {
        // What came by the ring goes round before the own; what was added lies in the own place.
        if (kWay == HandWay::ring && p_.schedule.ranks > 1)
          add_elements<Element>(sum, unit(at(p_.call.rank) + p_.incoming, i));
        add_elements<Element>(sum, unit(own_partial(0), i));
      }
      reinterpret_cast<uint4*>(p_.out)[i - p_.out_begin] = finish_sum<Element>(p_, sum, i);
    }
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE static std::size_t bytes(Index units) {
    return static_cast<std::size_t>(units) * sizeof(uint4);
  }
  TILELACE_DEVICE std::byte* at(int rank) const { return p_.call.memory_at(rank); }
  TILELACE_DEVICE const std::byte* own_partial(Index unit) const {
    return at(p_.call.rank) + p_.partials + bytes(unit);
  }
  TILELACE_DEVICE static uint4 unit(const std::byte* from, Index i) {
    return __ldcg(reinterpret_cast<const uint4*>(from) + i);
  }
  TILELACE_DEVICE static void load(uint4 (&v)[kUnits], const std::byte* from, Index first,
                                   Index end) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      if (first + u * kThreads < end) v[u] = unit(from, first + u * kThreads);
  }
  TILELACE_DEVICE static uint4 sum_of(const uint4& come, const uint4& own) {
    float sum[8] = {};
    add_elements<Element>(sum, come);
    add_elements<Element>(sum, own);
    return pack_elements<Element>(sum);
  }

  /// Ring: to the next rank, with what came where that is reduced.
  TILELACE_DEVICE void hand(const SumChunk& c, int to, bool adds) const {
    auto* const next = reinterpret_cast<uint4*>(at(to) + p_.incoming);
    for (Index i = c.units.begin + thread(); i < c.units.end; i += kUnits * kThreads) {
      uint4 own[kUnits], come[kUnits];
      load(own, own_partial(0), i, c.units.end);
      if (adds) load(come, at(p_.call.rank) + p_.incoming, i, c.units.end);
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (i + u * kThreads < c.units.end)
          next[i + u * kThreads] = adds ? sum_of(come[u], own[u]) : own[u];
    }
  }

  /// Copied: adds the terms of up to kTerms ranks, in rank order.
  TILELACE_DEVICE void add_terms(float (&sum)[8], int first, Index i, const SumChunk& c) const {
    uint4 v[kTerms];
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (first + t < p_.schedule.ranks) v[t] = term(first + t, i, c);
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (first + t < p_.schedule.ranks) add_elements<Element>(sum, v[t]);
  }
  TILELACE_DEVICE uint4 term(int q, Index i, const SumChunk& c) const {
    if (q == p_.call.rank) return unit(own_partial(0), i);
    const int before = (q + p_.schedule.ranks - p_.call.rank) % p_.schedule.ranks - 1;
    return unit(at(p_.call.rank) + p_.incoming + static_cast<std::size_t>(before) * p_.pitch,
                i - p_.schedule.rows[c.owner].begin);
  }

  const HandSum& p_;
  ChunkFlags flags_;
  bool adds_ = false;
};

template <class Element, HandWay kWay>
__global__ void __launch_bounds__(kThreads, 2) hand_kernel(const __grid_constant__ HandSum p) {
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  if (!enter_behind_product(p.call, epoch)) return;
  // Not before: what comes next must not take places while a peer's product may still need one.
  ptx::launch_dependents();
  HandVerbs<Element, kWay> verbs(p, epoch);
  schedule::run_hand_rows<kWay>(p.schedule, static_cast<int>(blockIdx.x), verbs);
}

using Kernel = void (*)(HandSum);

template <class Element>
Kernel kernel_of(HandWay way) {
  switch (way) {
    case HandWay::copied: return hand_kernel<Element, HandWay::copied>;
    case HandWay::added: return hand_kernel<Element, HandWay::added>;
    case HandWay::ring: return hand_kernel<Element, HandWay::ring>;
  }
  return nullptr;
}

Kernel kernel_of(DType dtype, HandWay way) {
  return with_element(dtype, [way](auto e) { return kernel_of<typename decltype(e)::type>(way); });
}

}  // namespace

cudaError_t enqueue_hand(const HandSum& rows, Start start, cudaStream_t stream) {
  return launch_sum(kernel_of(rows.dtype, rows.way), rows, kThreads, start, stream);
}

cudaError_t load_hand_rows() {
  return for_each_gpu_dtype([](DType dtype) {
    cudaFuncAttributes attributes{};
    for (const HandWay way : {HandWay::copied, HandWay::added, HandWay::ring})
      if (const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel_of(dtype, way));
          status != cudaSuccess)
        return status;
    return cudaSuccess;
  });
}

}  // namespace tilelace::cuda
