// SPDX-License-Identifier: Apache-2.0
// Compiles loops for generic x86-64, AVX2 and AVX-512, and chooses the version at run time, so that
// a binary runs on any CPU. (The resolvers of target_clones would run before a sanitizer is ready.)
#pragma once
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define TILELACE_X86_DISPATCH 1
#else
#define TILELACE_X86_DISPATCH 0
#endif

#define TILELACE_INLINE_BODY __attribute__((always_inline))

namespace tilelace::cpu {

enum class SimdLevel : std::uint8_t { generic, avx2, avx512 };

#if TILELACE_X86_DISPATCH
#define TILELACE_AVX2 __attribute__((target("avx2,fma,f16c")))
#if defined(__clang__)
#define TILELACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#else
#define TILELACE_AVX512 \
  __attribute__((       \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")))
#endif

inline SimdLevel detect_simd_level() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return SimdLevel::avx512;
  // Every CPU with AVX2 also has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SimdLevel::avx2;
  return SimdLevel::generic;
}

template <class Body>
TILELACE_AVX2 void run_avx2(const Body& body) {
  body();
}

template <class Body>
TILELACE_AVX512 void run_avx512(const Body& body) {
  body();
}
#else
inline SimdLevel detect_simd_level() { return SimdLevel::generic; }
#endif

inline SimdLevel simd_level() {
  static const SimdLevel level = detect_simd_level();
  return level;
}

/// Runs `body`, a lambda marked TILELACE_INLINE_BODY, in the version compiled for this CPU.
template <class Body>
void run_simd(const Body& body) {
#if TILELACE_X86_DISPATCH
  switch (simd_level()) {
    case SimdLevel::avx512: return run_avx512(body);
    case SimdLevel::avx2: return run_avx2(body);
    case SimdLevel::generic: break;
  }
#endif
  body();
}

}  // namespace tilelace::cpu
