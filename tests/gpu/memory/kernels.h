// SPDX-License-Identifier: Apache-2.0
// Kernels that fill, move and compare memory. None of them waits for anything.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tilelace::comm::test {

/// The type of words. f32 and bf16 hold small integers, so their sums are exact in any order.
enum class Words : std::uint8_t { bits, f32, bf16 };

/// Expected content of memory: the pattern of one seed, or the sum of patterns of several seeds.
struct Expected {
  static constexpr int kMost = 65;
  Words words = Words::bits;
  int count = 0;
  std::uint32_t seeds[kMost] = {};
  void add(std::uint32_t seed) { seeds[count++] = seed; }
};

/// The differences from the expected content that one block found.
struct Differences {
  std::uint64_t count;
  std::uint64_t first;  ///< index of the first differing word
  std::uint32_t got;
  std::uint32_t want;
};
constexpr int kBlocks = 128;

// Fills with the pattern of a seed. Addresses and sizes are multiples of 16.
void fill(void* at, std::size_t bytes, Words words, std::uint32_t seed, cudaStream_t stream);
void copy_words(void* to, const void* from, std::size_t bytes, cudaStream_t stream);
/// As fill, but through shared memory, by bulk stores of the TMA.
void bulk_store(void* at, std::size_t bytes, std::uint32_t seed, cudaStream_t stream);
/// Adds the pattern of a seed (f32 or bf16) to the memory by bulk reductions of the TMA.
void bulk_add(void* at, std::size_t bytes, Words words, std::uint32_t seed, cudaStream_t stream);
/// Compares memory with the expected content, and writes kBlocks entries to `found`.
void compare(const void* at, std::size_t bytes, const Expected& expected, Differences* found,
             cudaStream_t stream);

}  // namespace tilelace::comm::test
