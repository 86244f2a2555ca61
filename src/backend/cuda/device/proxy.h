// SPDX-License-Identifier: Apache-2.0
// Operations of two memory proxies: threads' own loads and stores, and TMA. Neither proxy sees
// what the other wrote unless a fence (or the completion of a bulk group) is in between.
#pragma once
#include <cstdint>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// After this, TMA operations of this thread see global memory as the thread sees it now, with its
/// own stores and with everything that its acquires and barriers made visible.
TILELACE_DEVICE void proxy_fence_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// What a transfer does at its destination: overwrite the value, or add to it.
enum class Landing : std::uint8_t { copy, add_bf16, add_fp16, add_fp32 };

/// Loads `bytes` bytes and completes on `barrier`. Addresses and `bytes` are multiples of 16.
TILELACE_DEVICE void bulk_load(ptx::Shared to, const void* from, std::uint32_t bytes,
                               ptx::Shared barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Copies or adds from shared memory to any rank's global memory, in the next committed bulk group.
/// Each element is added in one operation at the memory's owner; PTX defines it as .relaxed.gpu.
template <Landing kLanding>
TILELACE_DEVICE void bulk_store(void* to, ptx::Shared from, std::uint32_t bytes) {
  if constexpr (kLanding == Landing::copy)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
  else if constexpr (kLanding == Landing::add_bf16)
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(
            to),
        "r"(from), "r"(bytes)
        : "memory");
  else if constexpr (kLanding == Landing::add_fp16)
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(
            to),
        "r"(from), "r"(bytes)
        : "memory");
  else
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(from), "r"(bytes)
        : "memory");
}

/// Adds 16 bytes of elements at system scope, since peers may add to the same words.
template <Landing kLanding>
TILELACE_DEVICE void add_vector(uint4* to, const uint4& v) {
  if constexpr (kLanding == Landing::add_bf16)
    asm volatile("red.relaxed.sys.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  else if constexpr (kLanding == Landing::add_fp16)
    asm volatile("red.relaxed.sys.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  else
    asm volatile("red.relaxed.sys.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "f"(__uint_as_float(v.x)), "f"(__uint_as_float(v.y)), "f"(__uint_as_float(v.z)),
                 "f"(__uint_as_float(v.w))
                 : "memory");
}

}  // namespace tilelace::cuda
