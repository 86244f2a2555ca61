// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "kernels.h"

namespace tilelace::comm::test {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kPiece = 16 * 1024;  ///< bytes of a bulk transfer

__device__ std::uint32_t mix(std::uint32_t seed, std::uint64_t index) {
  std::uint64_t x = (static_cast<std::uint64_t>(seed) << 32) + index + 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>(x ^ (x >> 31));
}

/// -3 .. 4: the sum over 65 terms needs 10 bits at most, over 9 terms no more than bf16 has.
__device__ int small(std::uint32_t seed, std::uint64_t element) {
  return static_cast<int>(mix(seed, element) & 7U) - 3;
}

__device__ int sum_of(const Expected& e, std::uint64_t element) {
  int sum = 0;
  for (int i = 0; i < e.count; ++i) sum += small(e.seeds[i], element);
  return sum;
}

__device__ std::uint32_t bf16_bits(int value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(static_cast<float>(value)));
}

__device__ std::uint32_t word_of(const Expected& e, std::uint64_t index) {
  switch (e.words) {
    case Words::bits: return mix(e.seeds[0], index);
    case Words::f32: return __float_as_uint(static_cast<float>(sum_of(e, index)));
    case Words::bf16: break;
  }
  return bf16_bits(sum_of(e, 2 * index)) | (bf16_bits(sum_of(e, 2 * index + 1)) << 16);
}

__device__ uint4 quad_of(const Expected& e, std::uint64_t quad) {
  return make_uint4(word_of(e, 4 * quad), word_of(e, 4 * quad + 1), word_of(e, 4 * quad + 2),
                    word_of(e, 4 * quad + 3));
}

__global__ void fill_kernel(uint4* at, std::uint64_t quads, const __grid_constant__ Expected e) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step)
    at[i] = quad_of(e, i);
}

__global__ void copy_kernel(uint4* to, const uint4* from, std::uint64_t quads) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step)
    to[i] = from[i];
}

__global__ void compare_kernel(const uint4* at, std::uint64_t quads,
                               const __grid_constant__ Expected e, Differences* found) {
  __shared__ Differences threads[kThreads];
  Differences mine{};
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
    const uint4 quad = at[i];
    const std::uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll  // or words lies in local memory
    for (int w = 0; w < 4; ++w) {
      const std::uint64_t index = 4 * i + static_cast<std::uint64_t>(w);
      const std::uint32_t want = word_of(e, index);
      if (words[w] == want) continue;
      if (mine.count++ == 0) mine = {1, index, words[w], want};
    }
  }
  threads[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Differences block{};
  for (int t = 0; t < kThreads; ++t) {
    const Differences& other = threads[t];
    if (other.count == 0) continue;
    const std::uint64_t count = block.count + other.count;
    if (block.count == 0 || other.first < block.first) block = other;
    block.count = count;
  }
  found[blockIdx.x] = block;
}

__device__ void bulk_write(void* to, const void* piece, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(piece))), "r"(bytes)
               : "memory");
}

__device__ void bulk_reduce(void* to, const void* piece, std::uint32_t bytes, Words words) {
  const auto global = __cvta_generic_to_global(to);
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(piece));
  if (words == Words::f32) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
        "r"(shared), "r"(bytes)
        : "memory");
  } else {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(
            global),
        "r"(shared), "r"(bytes)
        : "memory");
  }
}

/// The pattern of one seed in pieces: made in shared memory, sent by one thread.
__global__ void bulk_kernel(char* at, std::uint64_t bytes, const __grid_constant__ Expected e,
                            bool add) {
  __shared__ alignas(128) uint4 piece[kPiece / sizeof(uint4)];
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * kPiece;
  for (std::uint64_t begin = blockIdx.x * static_cast<std::uint64_t>(kPiece); begin < bytes;
       begin += step) {
    const std::uint64_t left = bytes - begin;
    const std::uint32_t size = left < kPiece ? static_cast<std::uint32_t>(left) : kPiece;
    for (std::uint32_t i = threadIdx.x; i < size / sizeof(uint4); i += blockDim.x)
      piece[i] = quad_of(e, begin / sizeof(uint4) + i);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      if (add) {
        bulk_reduce(at + begin, piece, size, e.words);
      } else {
        bulk_write(at + begin, piece, size);
      }
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
}

Expected pattern(Words words, std::uint32_t seed) {
  Expected e;
  e.words = words;
  e.add(seed);
  return e;
}

}  // namespace

void fill(void* at, std::size_t bytes, Words words, std::uint32_t seed, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<uint4*>(at), bytes / sizeof(uint4),
                                                pattern(words, seed));
}

void copy_words(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  copy_kernel<<<kBlocks, kThreads, 0, stream>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), bytes / sizeof(uint4));
}

void bulk_store(void* at, std::size_t bytes, std::uint32_t seed, cudaStream_t stream) {
  bulk_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<char*>(at), bytes,
                                                pattern(Words::bits, seed), false);
}

void bulk_add(void* at, std::size_t bytes, Words words, std::uint32_t seed, cudaStream_t stream) {
  bulk_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<char*>(at), bytes, pattern(words, seed),
                                                true);
}

void compare(const void* at, std::size_t bytes, const Expected& expected, Differences* found,
             cudaStream_t stream) {
  compare_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(at),
                                                   bytes / sizeof(uint4), expected, found);
}

}  // namespace tilelace::comm::test
