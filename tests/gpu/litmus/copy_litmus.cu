// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/wait.h"
#include "copy_litmus.h"
#include "litmus_words.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kConsumers = 512;
constexpr int kFillBytes = 200 * 1024;  // of shared memory: one CTA fills an SM

using schedule::Index;

__device__ std::uint32_t copy_word(int source, std::uint32_t epoch, std::uint32_t i) {
  return mix(i, epoch, static_cast<std::uint32_t>(source));
}

__device__ std::uint32_t thread_of_grid() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void reset_kernel(const __grid_constant__ CopyLitmus l, std::uint32_t epoch) {
  const std::uint32_t threads = gridDim.x * blockDim.x;
  if (thread_of_grid() == 0) *l.epoch = epoch;
  const auto words = static_cast<std::uint32_t>(l.schedule.split.m * kCopyRowBytes / 4);
  std::byte* const own = l.base + l.schedule.rank * l.stride;
  for (int slot = 0; slot < 2; ++slot) {
    auto* const flags = reinterpret_cast<comm::Flag*>(own + l.flags[slot]);
    auto* const data = reinterpret_cast<std::uint32_t*>(own + l.rows[slot]);
    for (Index i = thread_of_grid(); i < l.schedule.num_flags(); i += threads) flags[i] = epoch;
    for (std::uint32_t i = thread_of_grid(); i < words; i += threads) data[i] = 0xffffffffU;
  }
}

/// With a random delay, so that calls meet each other at different points.
__global__ void fill_kernel(const __grid_constant__ CopyLitmus l) {
  const std::uint32_t epoch = *l.epoch + 1;
  const int rank = l.schedule.rank;
  auto* const words = reinterpret_cast<std::uint32_t*>(l.input);
  const auto count =
      static_cast<std::uint32_t>(l.schedule.split.shard(rank).size() * kCopyRowBytes / 4);
  for (std::uint32_t i = thread_of_grid(); i < count; i += gridDim.x * blockDim.x)
    words[i] = copy_word(rank, epoch, i);
  if (thread_of_grid() == 0) __nanosleep(copy_word(rank, epoch, 12345) & 8191U);
}

__device__ unsigned long long wrong_words(const CopyLitmus& l, const std::uint32_t* data,
                                          int source, schedule::RowRange rows,
                                          std::uint32_t epoch) {
  constexpr std::uint32_t kRowWords = kCopyRowBytes / 4;
  const auto origin = static_cast<std::uint32_t>(l.schedule.split.begin(source)) * kRowWords;
  const auto end = static_cast<std::uint32_t>(rows.end) * kRowWords;
  unsigned long long wrong = 0;
  for (std::uint32_t i = static_cast<std::uint32_t>(rows.begin) * kRowWords + thread_of_grid();
       i < end; i += gridDim.x * blockDim.x) {
    const std::uint32_t expected = copy_word(source, epoch, i - origin);
    const std::uint32_t got = data[i];
    if (got == expected) continue;
    if (wrong++ == 0 && atomicCAS(&l.result->claimed, 0U, 1U) == 0) {
      l.result->epoch = epoch;
      l.result->source = source;
      l.result->lane = static_cast<std::int32_t>(blockIdx.x);
      l.result->word = i - origin;
      l.result->got = got;
      l.result->expected = expected;
    }
  }
  return wrong;
}

__global__ void __launch_bounds__(kConsumers) consume_kernel(const __grid_constant__ CopyLitmus l) {
  const schedule::AgGemm& s = l.schedule;
  const std::uint32_t epoch = *l.epoch;
  const std::byte* const own = l.base + s.rank * l.stride;
  const auto* const flags = reinterpret_cast<const comm::Flag*>(own + l.flags[epoch & 1U]);
  const auto* const data = reinterpret_cast<const std::uint32_t*>(own + l.rows[epoch & 1U]);
  unsigned long long wrong = 0;
  for (int i = 1; i < s.ranks(); ++i) {
    const int source = s.route.gather_order(s.rank, i);
    const schedule::Chunks chunks = s.chunks(source);
    for (Index c = 0; c < chunks.count(); ++c) {
      const auto flag = static_cast<std::uint32_t>(s.landed(source, c));
      const cuda::WaitPlace place{cuda::Role::load, i, static_cast<std::int32_t>(blockIdx.x),
                                  source, flag};
      if (!cuda::wait_cta(l.wait, place, flags + flag, epoch)) return;
      const schedule::RowRange rows = chunks.rows(c);
      wrong += wrong_words(l, data, source, rows, epoch);
      if (blockIdx.x == 0 && threadIdx.x == 0)
        l.result->checked_words += static_cast<unsigned long long>(rows.size()) * kCopyRowBytes / 4;
    }
  }
  if (wrong != 0) atomicAdd(&l.result->wrong_words, wrong);
}

}  // namespace

cudaError_t prepare_copy_litmus() {
  cudaFuncAttributes unused{};
  for (const void* kernel :
       {reinterpret_cast<const void*>(reset_kernel), reinterpret_cast<const void*>(fill_kernel)}) {
    const cudaError_t status = cudaFuncGetAttributes(&unused, kernel);
    if (status != cudaSuccess) return status;
  }
  return cudaFuncSetAttribute(consume_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kFillBytes);
}

cudaError_t enqueue_copy_reset(const CopyLitmus& l, std::uint32_t epoch, cudaStream_t stream) {
  reset_kernel<<<64, 256, 0, stream>>>(l, epoch);
  return cudaGetLastError();
}

cudaError_t enqueue_copy_fill(const CopyLitmus& l, cudaStream_t stream) {
  fill_kernel<<<32, 256, 0, stream>>>(l);
  return cudaGetLastError();
}

cudaError_t enqueue_copy_consume(const CopyLitmus& l, int ctas, cudaStream_t stream) {
  consume_kernel<<<static_cast<unsigned>(ctas), kConsumers, kFillBytes, stream>>>(l);
  return cudaGetLastError();
}

}  // namespace tilelace::gpu_test
