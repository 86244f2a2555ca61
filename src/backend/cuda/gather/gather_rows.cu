// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/call.h"
#include "backend/cuda/gather/gather_rows.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kCopyCtas = 264;  ///< two of each of 132 multiprocessors: more do not copy faster

__global__ void __launch_bounds__(kThreads) await_kernel(const __grid_constant__ AwaitRows w) {
  __shared__ bool admitted;
  const CallParams& c = w.call;
  const std::uint32_t epoch = call_number(c);
  __syncthreads();  // everybody has it before it is counted
  if (threadIdx.x < 32) {
    if (c.first) send_headers(c, epoch);
    __syncwarp();  // stays: __syncthreads above says that all have the number
    if (threadIdx.x == 0 && c.last) count_call(c, epoch);
    const bool good = wait_admission(c, epoch);
    if (threadIdx.x == 0) admitted = good;
  }
  __syncthreads();
  if (!admitted) return;
  const comm::Flag* flags = c.flags_at(c.rank);
  for (int source = 0; source < c.ranks; ++source) {
    if (source == c.rank) continue;
    for (int i = static_cast<int>(threadIdx.x); i < w.chunks[source]; i += kThreads) {
      const int flag = source * w.max_chunks + i;
      const WaitPlace place{Role::copy, i, -1, source, static_cast<std::uint32_t>(flag)};
      if (wait(c.wait, place, flags + flag, epoch) != comm::WaitStatus::reached) return;
    }
  }
}

__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ GatheredCopy g) {
  // stays: nothing is read by what the word says
  if (comm::CudaAtomics::load_acquire(g.stop) != 0) return;
  const std::int64_t step = std::int64_t{16} * kThreads * gridDim.x;
  const std::int64_t first = 16 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  for (std::int64_t at = first; at < g.bytes; at += step) {
    const bool own = at >= g.own_begin && at < g.own_end;
    const std::byte* const from = own ? g.own + (at - g.own_begin) : g.slot + at;
    *reinterpret_cast<uint4*>(g.to + at) = *reinterpret_cast<const uint4*>(from);
  }
}

}  // namespace

cudaError_t enqueue_await(const AwaitRows& await, cudaStream_t stream) {
  await_kernel<<<1, kThreads, 0, stream>>>(await);
  return cudaGetLastError();
}

cudaError_t enqueue_copy(const GatheredCopy& copy, cudaStream_t stream) {
  const std::int64_t needed = (copy.bytes + 16 * kThreads - 1) / (16 * kThreads);
  const auto ctas = static_cast<unsigned>(needed < kCopyCtas ? needed : kCopyCtas);
  copy_kernel<<<ctas, kThreads, 0, stream>>>(copy);
  return cudaGetLastError();
}

cudaError_t load_gather_rows() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, await_kernel);
  return status == cudaSuccess ? cudaFuncGetAttributes(&attributes, copy_kernel) : status;
}

}  // namespace tilelace::cuda
