// SPDX-License-Identifier: Apache-2.0
// A litmus test: in each round of a kernel, every rank sends new data to every peer, in rotated
// order, and checks its peers' data. Epochs wrap around. Compiled by nvcc and for hosts.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"
#include "core/host_device.h"

namespace tilelace::gpu_test {

/// How the producer sends the data.
enum class Send : std::uint8_t { threads, bulk };
/// How the consumer reads the data.
enum class Reader : std::uint8_t { loads, bulk };
/// The same as Landing in device/proxy.h, which only nvcc can compile.
enum class Payload : std::uint8_t { copy, add_bf16, add_fp16, add_fp32 };

/// The part of the protocol that is left out.
enum class Mutant : std::uint8_t {
  none,
  flag_first,      ///< signals before the data is sent
  read_wait,       ///< waits by wait_group.read instead of wait_group before it signals
  no_bulk_wait,    ///< no wait for bulk stores at all
  relaxed_signal,  ///< raises the flag without release
  no_barrier,      ///< one thread signals without a barrier after the other threads' stores
  relaxed_wait,    ///< waits for the flag without acquire
  no_proxy_fence,  ///< no fence.proxy.async between the acquire and the TMA's loads
  no_fill_fence    ///< no proxy fence between threads' writes and the TMA's loads of them
};

struct LitmusResult {
  unsigned long long wrong_words;
  unsigned long long checked_words;
  unsigned int claimed;  ///< set by the thread that describes the first wrong word
  std::uint32_t epoch;
  std::int32_t source;
  std::int32_t lane;
  std::uint32_t word;
  std::uint32_t got;
  std::uint32_t expected;
};

constexpr int kLanes = 8;  ///< pairs of a producer CTA and a consumer CTA on every rank
constexpr int kThreads = 256;
constexpr int kRingDepth = 4;
constexpr std::uint32_t kMaxLaneBytes = 32768;

struct Litmus {
  std::byte* base = nullptr;  ///< symmetric memory; rank r's part is at base + r * stride
  std::size_t stride = 0;
  std::byte* staging = nullptr;  ///< kLanes * kMaxLaneBytes bytes of this rank's memory
  LitmusResult* result = nullptr;
  cuda::WaitContext wait;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint32_t bytes = 0;  ///< bytes of a transfer, a multiple of 16
  std::uint32_t first = 0;  ///< the first round has epoch first + 1
  std::uint32_t rounds = 0;
  std::uint32_t delay_mask = 0;  ///< naps last (a random number & delay_mask) ns; 0: no naps
  Send send = Send::threads;
  Payload payload = Payload::copy;
  Reader reader = Reader::loads;
  Mutant mutant = Mutant::none;
};

/// Bytes of symmetric memory that a litmus needs for this number of ranks.
TILELACE_HD constexpr std::size_t litmus_bytes(int ranks) {
  const auto pairs = static_cast<std::size_t>(kLanes * ranks);
  return pairs * 2 * 64 + pairs * 2 * kMaxLaneBytes;
}

/// Sets flags to l.first, and slots to zero (for sums) or poison (for copies).
cudaError_t enqueue_litmus_reset(const Litmus& l, cudaStream_t stream);
/// Loads the kernel. To be called once per device, before any rank waits.
cudaError_t prepare_litmus();
cudaError_t enqueue_litmus(const Litmus& l, cudaStream_t stream);

}  // namespace tilelace::gpu_test
