// SPDX-License-Identifier: Apache-2.0
// Reads structs that carry their size, since the program may have been compiled with an older or a
// newer header than the library.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/check.h"
#include "tilelace/c.h"
#include "tilelace/tensor.h"

namespace tilelace::c_api {

/// Converts a number to an enum; a number outside 0 to 254 becomes 255. The call itself refuses
/// unknown values, so that peers learn of the error, too.
template <class Enum>
Enum as(int32_t value) {
  return static_cast<Enum>(value >= 0 && value < 255 ? value : 255);
}

inline TensorView view(const tilelace_tensor& t) {
  return {t.data, as<DType>(t.dtype), t.rows, t.cols, t.stride};
}

/// All structs of the API are smaller, so a larger struct_size must be uninitialised memory.
inline constexpr size_t kMostBytes = 4096;

/// The size of a struct in the first version of the API; fields added later have defaults.
template <class T>
constexpr size_t least_bytes();
template <>
constexpr size_t least_bytes<tilelace_options>() {
  return sizeof(size_t);
}
template <>
constexpr size_t least_bytes<tilelace_problem>() {
  return offsetof(tilelace_problem, rows);
}
template <>
constexpr size_t least_bytes<tilelace_ag_gemm_args>() {
  return offsetof(tilelace_ag_gemm_args, gathered);
}
template <>
constexpr size_t least_bytes<tilelace_gemm_reduce_args>() {
  return offsetof(tilelace_gemm_reduce_args, rows);
}
template <>
constexpr size_t least_bytes<tilelace_call_args>() {
  return offsetof(tilelace_call_args, rows);
}
template <>
constexpr size_t least_bytes<tilelace_collective_args>() {
  return offsetof(tilelace_collective_args, lines);
}
template <>
constexpr size_t least_bytes<tilelace_all_reduce_norm_args>() {
  return offsetof(tilelace_all_reduce_norm_args, lines);
}

template <>
constexpr size_t least_bytes<tilelace_grouped_gemm_args>() {
  return sizeof(tilelace_grouped_gemm_args);
}
template <>
constexpr size_t least_bytes<tilelace_moe_layer>() {
  return sizeof(tilelace_moe_layer);
}
template <>
constexpr size_t least_bytes<tilelace_ag_moe_args>() {
  return sizeof(tilelace_ag_moe_args);
}
template <>
constexpr size_t least_bytes<tilelace_moe_reduce_args>() {
  return sizeof(tilelace_moe_reduce_args);
}

/// The struct as this library knows it. Fields that an older struct lacks are 0, their default;
/// fields that only a newer struct has must be 0. Errors: usage (a wrong size; a field that this
/// library does not know).
template <class T>
T known(const T& given, const char* call, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  const size_t bytes = given.struct_size;
  require(bytes >= least_bytes<T>() && bytes <= kMostBytes && bytes % alignof(T) == 0,
          "{}: {}: struct_size: got {}, expected {}: set it to the struct's sizeof", call, what,
          bytes, sizeof(T));
  const auto* begin = reinterpret_cast<const unsigned char*>(&given);
  if (bytes > sizeof(T)) {
    const bool zeros =
        std::all_of(begin + sizeof(T), begin + bytes, [](unsigned char b) { return b == 0; });
    require(
        zeros,
        "{}: {}: struct_size: got {}, with values beyond the {} bytes of API version {}: set to 0 "
        "the fields that this library does not know",
        call, what, bytes, sizeof(T), TILELACE_API_VERSION);
  }
  T all{};
  std::memcpy(&all, &given, std::min(bytes, sizeof(T)));
  all.struct_size = sizeof(T);
  return all;
}

/// The i-th struct of a list. All structs of a list have the struct_size of the first.
template <class T>
T known_at(const T* list, size_t i, const char* call, const char* what) {
  const auto* at = reinterpret_cast<const unsigned char*>(list) + i * list->struct_size;
  const T& given = *reinterpret_cast<const T*>(at);
  require(i == 0 || given.struct_size == list->struct_size,
          "{}: {} {}: struct_size: got {}, expected {}, as in the first one", call, what, i,
          given.struct_size, list->struct_size);
  return known(given, call, what);
}

}  // namespace tilelace::c_api
