// SPDX-License-Identifier: Apache-2.0
// The atomics policy of device code, with system scope because flags cross NVLink. Needs nvcc.
#pragma once
#include <cstdint>

namespace tilelace::comm {

struct CudaAtomics {
  static __device__ __forceinline__ std::uint32_t load_acquire(const std::uint32_t* word) {
    std::uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ __forceinline__ void store_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  static __device__ __forceinline__ void store_release(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  static __device__ __forceinline__ void add_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  static __device__ __forceinline__ bool compare_exchange(std::uint64_t* word,
                                                          std::uint64_t& expected,
                                                          std::uint64_t desired) {
    std::uint64_t before;
    asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(word), "l"(expected), "l"(desired)
                 : "memory");
    const bool done = before == expected;
    expected = before;
    return done;
  }
  /// Reads %globaltimer, which counts nanoseconds at any clock rate.
  static __device__ __forceinline__ std::int64_t now_ns() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return static_cast<std::int64_t>(now);
  }
  /// Sleeps even in early rounds, so that fences of other warps of the SM complete between polls.
  static __device__ __forceinline__ void pause(std::uint32_t round) {
    if (round > 1) __nanosleep(round > 64 ? 100 : 32);
  }
};

/// Atomics of scope .gpu, for words that only CTAs of one device use. Stores need only reach L2.
struct CudaDeviceAtomics : CudaAtomics {
  static __device__ __forceinline__ std::uint32_t load_acquire(const std::uint32_t* word) {
    std::uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ __forceinline__ void store_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  /// Counts 0, 1, ... last, 0, ...: returns the word and sets it to the next number. Relaxed.
  static __device__ __forceinline__ std::uint32_t next(std::uint32_t* word, std::uint32_t last) {
    std::uint32_t before;
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(last)
                 : "memory");
    return before;
  }
  /// Adds and returns the old value. Order: acquire and release.
  static __device__ __forceinline__ std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
    std::uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(value)
                 : "memory");
    return before;
  }
};

}  // namespace tilelace::comm
