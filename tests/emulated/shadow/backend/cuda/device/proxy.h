// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/proxy.h for emulated GPUs, where threads and bulk copies always see the
// same memory. machine/order.h checks whether fences guarantee this.
#pragma once
#include <cstdint>

#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

inline void proxy_fence_global() {
  emulated::order::fence_copies(emulated::Machine::get().knower());
}

enum class Landing : std::uint8_t { copy, add_bf16, add_fp16, add_fp32 };

namespace detail {
template <Landing kLanding>
TILELACE_UNWATCHED void add_word(std::uint32_t* to, std::uint32_t v) {
  if constexpr (kLanding == Landing::add_fp32) {
    *to = __float_as_uint(__uint_as_float(*to) + __uint_as_float(v));
  } else {
    using Element = std::conditional_t<kLanding == Landing::add_bf16, __nv_bfloat16, __half>;
    const float2 a = unpack(*to, Element{}), b = unpack(v, Element{});
    *to = pack(a.x + b.x, a.y + b.y, Element{});
  }
}

template <Landing kLanding>
void add_elements_of(uint4* to, const uint4& v) {
  add_word<kLanding>(&to->x, v.x);
  add_word<kLanding>(&to->y, v.y);
  add_word<kLanding>(&to->z, v.z);
  add_word<kLanding>(&to->w, v.w);
}
}  // namespace detail

template <Landing kLanding>
void add_vector(uint4* to, const uint4& v) {
  emulated::order::touch(emulated::Machine::get().knower(), emulated::order::Access::add, to,
                         sizeof v, __builtin_return_address(0));
  detail::add_elements_of<kLanding>(to, v);
}

inline void bulk_load(ptx::Shared to, const void* from, std::uint32_t bytes, ptx::Shared barrier) {
  emulated::bulk_load(to, from, bytes, barrier);
}

template <Landing kLanding>
void bulk_store(void* to, ptx::Shared from, std::uint32_t bytes) {
  emulated::bulk_store(from, bytes, [=](const std::byte* held, const emulated::Asked& asked) {
    using emulated::order::Access;
    emulated::order::touch(asked, kLanding == Landing::copy ? Access::write : Access::add, to,
                           bytes);
    if constexpr (kLanding == Landing::copy)
      std::memcpy(to, held, bytes);
    else
      for (std::uint32_t i = 0; i < bytes / 16; ++i)
        detail::add_elements_of<kLanding>(static_cast<uint4*>(to) + i,
                                          reinterpret_cast<const uint4*>(held)[i]);
  });
}

}  // namespace tilelace::cuda
