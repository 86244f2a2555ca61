// SPDX-License-Identifier: Apache-2.0
// Loads for sums over all ranks, stores to all ranks, and counts on all ranks. by_switch uses a
// multicast address, which stands for the same place on every rank, and the NVLink switch returns
// finished sums. With by_peers this rank accesses the memory of each rank itself.
#pragma once
#include <type_traits>

#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/sums_place.h"
#include "comm/cuda_atomics.h"

namespace tilelace::cuda {

enum class SumsBy : std::uint8_t { by_switch, by_peers };

/// Offsets in symmetric memory are in bytes: multiples of 16 or, for count(), multiples of 4.
template <SumsBy kBy>
struct Sums;

template <>
struct Sums<SumsBy::by_switch> {
  /// The sums over all ranks of eight elements, added in fp32 in the switch's order and rounded
  /// once. Called by: any thread to which all these elements were published. Order: relaxed.
  template <class Element>
  static TILELACE_DEVICE uint4 load(const SumsPlace& p, int /*rank*/, std::size_t offset) {
    uint4 sum;
    if constexpr (std::is_same_v<Element, __nv_bfloat16>)
      asm volatile(
          "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
          : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)
          : "l"(p.multicast + offset)
          : "memory");
    else
      asm volatile(
          "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
          : "=r"(sum.x), "=r"(sum.y), "=r"(sum.z), "=r"(sum.w)
          : "l"(p.multicast + offset)
          : "memory");
    return sum;
  }
  /// Stores the same 16 bytes at every rank. Order: relaxed; a later addition to a count publishes
  /// them. Never blocks.
  template <class Element>
  static TILELACE_DEVICE void store(const SumsPlace& p, int /*ranks*/, std::size_t offset,
                                    const uint4& v) {
    if constexpr (std::is_same_v<Element, __nv_bfloat16>)
      asm volatile("multimem.st.relaxed.sys.global.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(
                       p.multicast + offset),
                   "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
    else
      asm volatile("multimem.st.relaxed.sys.global.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(
                       p.multicast + offset),
                   "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
  }
  /// Adds one to the counter at this offset on each rank. Called by: a warp. Order: release at
  /// system scope, as in signal (device/publish.h).
  static TILELACE_DEVICE void count(const SumsPlace& p, int /*ranks*/, std::size_t offset) {
    if ((threadIdx.x & 31) == 0)
      asm volatile("multimem.red.release.sys.global.add.u32 [%0], %1;" ::"l"(p.multicast + offset),
                   "r"(1U)
                   : "memory");
  }
  /// Must come between an access by a rank's own address and an access by the multicast address of
  /// the same memory, in either order, as part of their synchronisation.
  static TILELACE_DEVICE void alias_fence() { asm volatile("fence.proxy.alias;" ::: "memory"); }
};

template <>
struct Sums<SumsBy::by_peers> {
  /// Eight elements of rank `rank` alone, not sums.
  template <class Element>
  static TILELACE_DEVICE uint4 load(const SumsPlace& p, int rank, std::size_t offset) {
    uint4 v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p.base + rank * p.stride + offset)
                 : "memory");
    return v;
  }
  template <class Element>
  static TILELACE_DEVICE void store(const SumsPlace& p, int ranks, std::size_t offset,
                                    const uint4& v) {
    for (int r = 0; r < ranks; ++r)
      asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                       p.base + r * p.stride + offset),
                   "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
  }
  /// One lane per rank adds, so that the releases overlap instead of waiting for each other.
  static TILELACE_DEVICE void count(const SumsPlace& p, int ranks, std::size_t offset) {
    const int rank = static_cast<int>(threadIdx.x) & 31;
    if (rank < ranks)
      comm::CudaAtomics::add_release(
          reinterpret_cast<std::uint32_t*>(p.base + rank * p.stride + offset), 1U);
  }
  static TILELACE_DEVICE void alias_fence() {}
};

}  // namespace tilelace::cuda
