// SPDX-License-Identifier: Apache-2.0
// Transfers by loads and stores of threads, 16 bytes at a time, between memory of any two ranks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/proxy.h"
#include "backend/cuda/device/publish.h"

namespace tilelace::cuda {

namespace detail {

template <Landing kLanding>
TILELACE_DEVICE void land(uint4* to, const uint4& v) {
  if constexpr (kLanding == Landing::copy)
    *to = v;
  else
    add_vector<kLanding>(to, v);
}

/// Each thread issues up to kBatch loads before their stores, since a round trip to memory is long.
template <Landing kLanding, int kBatch>
TILELACE_DEVICE void move_vectors(const Crew& crew, void* to, const void* from, std::size_t bytes) {
  auto* const t = static_cast<uint4*>(to);
  const auto* const f = static_cast<const uint4*>(from);
  const std::size_t count = bytes / sizeof(uint4);
  const auto step = static_cast<std::size_t>(crew.threads);
  for (auto i = static_cast<std::size_t>(crew.thread); i < count; i += kBatch * step) {
    uint4 v[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (i + b * step < count) v[b] = f[i + b * step];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (i + b * step < count) land<kLanding>(t + i + b * step, v[b]);
  }
}

}  // namespace detail

/// Copies `bytes` bytes. Addresses and length are multiples of 16. Called by: every thread of the
/// crew. The source must be visible to the calling threads; for a peer's data this takes a wait,
/// then a barrier. Never blocks. Publishes nothing, so publish must be called afterwards.
/// kBatch: vectors that a thread has on their way at once, four registers each.
template <int kBatch = 4>
TILELACE_DEVICE void copy_by_threads(const Crew& crew, void* to, const void* from,
                                     std::size_t bytes) {
  detail::move_vectors<Landing::copy, kBatch>(crew, to, from, bytes);
}

/// Adds each element to the one at the destination, by a relaxed operation at system scope
/// (addresses and length are multiples of 16). Callers and order are as for copy_by_threads.
/// Additions of several ranks are unordered, so the rounding of sums differs from run to run.
template <Landing kLanding>
TILELACE_DEVICE void add_by_threads(const Crew& crew, void* to, const void* from,
                                    std::size_t bytes) {
  static_assert(kLanding != Landing::copy, "copy_by_threads copies");
  detail::move_vectors<kLanding, 4>(crew, to, from, bytes);
}

}  // namespace tilelace::cuda
