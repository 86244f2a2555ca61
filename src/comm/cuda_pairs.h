// SPDX-License-Identifier: Apache-2.0
// Words that carry data and the number of their call, for device code at system scope. Needs nvcc.
#pragma once
#include <cstdint>

namespace tilelace::comm {

/// Two adjacent words, 16-byte aligned. A reader sees each word either old or new, never torn. An
/// access orders no other access to memory.
struct CudaPairs {
  static __device__ __forceinline__ void store(std::uint64_t* pair, std::uint64_t first,
                                               std::uint64_t second) {
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(pair), "l"(first), "l"(second)
                 : "memory");
  }
  /// Stores one word, never torn. Only for headers, which need no release, since the work that a
  /// header announces was complete when the previous kernel ended.
  static __device__ __forceinline__ void store(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  static __device__ __forceinline__ void load(const std::uint64_t* pair, std::uint64_t& first,
                                              std::uint64_t& second) {
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(pair)
                 : "memory");
  }
  static __device__ __forceinline__ void load(const std::uint64_t* word, std::uint64_t& value) {
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  }
};

}  // namespace tilelace::comm
