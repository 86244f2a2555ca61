// SPDX-License-Identifier: Apache-2.0
// Reads and writes one element of any type on the host.
#pragma once
#include <cstdint>

#include "tilelace/dtype.h"
#include "tilelace/error.h"
#include "tilelace/half.h"  // IWYU pragma: export

namespace tilelace {

/// Conversions of one element to and from fp32 on the host, one struct per type.
struct HostBf16 {
  using Word = std::uint16_t;
  static float to_float(Word w) { return bf16_to_float(w); }
  static Word from_float(float f) { return float_to_bf16(f); }
};
struct HostFp16 {
  using Word = std::uint16_t;
  static float to_float(Word w) { return fp16_to_float(w); }
  static Word from_float(float f) { return float_to_fp16(f); }
};
struct HostFp32 {
  using Word = float;
  static float to_float(Word w) { return w; }
  static Word from_float(float f) { return f; }
};

/// Calls f(HostBf16{}), f(HostFp16{}) or f(HostFp32{}), depending on the type. Errors: usage (a
/// value that names no type).
template <class F>
decltype(auto) with_host_element(DType t, const F& f) {
  switch (t) {
    case DType::bf16: return f(HostBf16{});
    case DType::fp16: return f(HostFp16{});
    case DType::fp32: return f(HostFp32{});
  }
  throw Error(ErrorKind::usage, "dtype: got an unknown value, expected bf16, fp16 or fp32");
}

inline float load_element(const void* p, DType t, std::int64_t i) {
  return with_host_element(t, [&](auto element) {
    using Element = decltype(element);
    return Element::to_float(static_cast<const typename Element::Word*>(p)[i]);
  });
}

inline void store_element(void* p, DType t, std::int64_t i, float value) {
  with_host_element(t, [&](auto element) {
    using Element = decltype(element);
    static_cast<typename Element::Word*>(p)[i] = Element::from_float(value);
  });
}

}  // namespace tilelace
