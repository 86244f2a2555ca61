// SPDX-License-Identifier: Apache-2.0
// Device code of a litmus: the places and the values of its words.
#pragma once
#include "comm/cuda_atomics.h"
#include "comm/signal.h"
#include "litmus.h"

namespace tilelace::gpu_test {

// ---- places: flags a cache line apart, then slots[epoch % 2][lane][source] ----
__device__ inline std::size_t pair_of(const Litmus& l, int lane, int rank) {
  return static_cast<std::size_t>(lane * l.ranks + rank);
}
__device__ inline std::size_t flag_bytes(const Litmus& l) {
  return static_cast<std::size_t>(2 * kLanes * l.ranks) * 64;
}
/// The flag at rank `at` that says that `source` has filled its slot there.
__device__ inline comm::Flag* data_flag(const Litmus& l, int at, int lane, int source) {
  return reinterpret_cast<comm::Flag*>(l.base + at * l.stride + pair_of(l, lane, source) * 64);
}
/// The flag at rank `at` that says that `peer` has read the data that `at` sent.
__device__ inline comm::Flag* free_flag(const Litmus& l, int at, int lane, int peer) {
  return reinterpret_cast<comm::Flag*>(l.base + at * l.stride + flag_bytes(l) / 2 +
                                       pair_of(l, lane, peer) * 64);
}
/// The slot of a source. Sums of all sources are made in the slot of source 0.
__device__ inline std::byte* slot(const Litmus& l, int at, std::uint32_t epoch, int lane,
                                  int source) {
  const int place = l.payload == Payload::copy ? source : 0;
  const std::size_t index =
      (epoch & 1U) * static_cast<std::size_t>(kLanes * l.ranks) + pair_of(l, lane, place);
  return l.base + at * l.stride + flag_bytes(l) + index * kMaxLaneBytes;
}

// ---- words ----
__device__ inline std::uint32_t mix(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t x = a * 2654435761U ^ b * 40503U ^ c * 2246822519U;
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  return x * 3266489917U;
}

/// Two integers from 0 to 7. Sums over 15 peers, at most 7 * 15, are exact in every type.
struct Pair {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

/// The bits of a pair in the payload's type. fp32 holds the low integer only.
__device__ inline std::uint32_t encode(Payload payload, Pair p) {
  const float low = static_cast<float>(p.low);
  const float high = static_cast<float>(p.high);
  if (payload == Payload::add_fp32) return __float_as_uint(low);
  if (payload == Payload::add_bf16)
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000U);
  std::uint32_t bits = 0;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

__device__ inline std::uint32_t bits_of(const Litmus&, int source, int dest, std::uint32_t epoch,
                                        int lane, std::uint32_t i) {
  return mix(i + static_cast<std::uint32_t>(lane) * 65536U, epoch,
             static_cast<std::uint32_t>(source * 64 + dest));
}
__device__ inline Pair pair_from(std::uint32_t bits) { return {bits & 7U, bits >> 3 & 7U}; }

/// The word that `source` sends to `dest`; source -1: the sum of all sources' words.
__device__ inline std::uint32_t word(const Litmus& l, int source, int dest, std::uint32_t epoch,
                                     int lane, std::uint32_t i) {
  if (l.payload == Payload::copy) return bits_of(l, source, dest, epoch, lane, i);
  if (source >= 0) return encode(l.payload, pair_from(bits_of(l, source, dest, epoch, lane, i)));
  Pair sum;
  for (int s = 0; s < l.ranks; ++s) {
    if (s == dest) continue;
    const Pair p = pair_from(bits_of(l, s, dest, epoch, lane, i));
    sum = {sum.low + p.low, sum.high + p.high};
  }
  return encode(l.payload, sum);
}

/// A nap of up to delay_mask ns, different every time.
__device__ inline void nap(const Litmus& l, std::uint32_t a, std::uint32_t b) {
  if (l.delay_mask == 0) return;
  const auto now = static_cast<std::uint32_t>(clock64());
  __nanosleep(mix(now, a * 8 + b, static_cast<std::uint32_t>(l.rank)) & l.delay_mask);
}

// ---- what a CTA does with a lane's words ----
__device__ inline void fill(const Litmus& l, std::byte* at, int source, int dest,
                            std::uint32_t epoch, int lane) {
  auto* const words = reinterpret_cast<std::uint32_t*>(at);
  for (std::uint32_t i = threadIdx.x; i < l.bytes / 4; i += kThreads)
    words[i] = word(l, source, dest, epoch, lane, i);
}

__device__ inline void clear(const Litmus& l, std::byte* at) {
  auto* const words = reinterpret_cast<std::uint32_t*>(at);
  for (std::uint32_t i = threadIdx.x; i < l.bytes / 4; i += kThreads) words[i] = 0;
}

__device__ inline void verify(const Litmus& l, const std::byte* at, int source, std::uint32_t epoch,
                              int lane) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(at);
  unsigned long long wrong = 0;
  for (std::uint32_t i = threadIdx.x; i < l.bytes / 4; i += kThreads) {
    const std::uint32_t got = words[i];
    const std::uint32_t expected = word(l, source, l.rank, epoch, lane, i);
    if (got == expected) continue;
    if (wrong++ == 0 && atomicCAS(&l.result->claimed, 0U, 1U) == 0) {
      l.result->epoch = epoch;
      l.result->source = source;
      l.result->lane = lane;
      l.result->word = i;
      l.result->got = got;
      l.result->expected = expected;
    }
  }
  if (wrong != 0) atomicAdd(&l.result->wrong_words, wrong);
  if (threadIdx.x == 0) atomicAdd(&l.result->checked_words, l.bytes / 4);
}

}  // namespace tilelace::gpu_test
