// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/check.h"

namespace tilelace::comm::test {
namespace {
constexpr double kBound_s = 10;
}

void require_cuda(cudaError_t result, std::string_view what) {
  if (result != cudaSuccess)
    raise(ErrorKind::system, "gpu_memory_check: {}, got {} ({}), expected success", what,
          cudaGetErrorName(result), cudaGetErrorString(result));
}

Expected bits_of(std::uint32_t seed) {
  Expected e;
  e.add(seed);
  return e;
}

Gpu::Gpu(int device) : device_(device) {
  require_cuda(cudaSetDevice(device), "cudaSetDevice");
  require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  require_cuda(cudaMalloc(reinterpret_cast<void**>(&found_), kBlocks * sizeof(Differences)),
               "cudaMalloc");
}

Gpu::~Gpu() {
  cudaFree(found_);
  cudaStreamDestroy(stream_);
}

void Gpu::finish(std::string_view what) const {
  require_cuda(cudaGetLastError(), what);
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) require_cuda(state, what);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > kBound_s)
      raise(ErrorKind::timeout,
            "gpu_memory_check: {} on device {}, got no end in {} s, expected one", what, device_,
            kBound_s);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::string Gpu::differences(std::string_view what, const void* at, std::size_t bytes,
                             const Expected& expected) const {
  compare(at, bytes, expected, found_, stream_);
  std::vector<Differences> blocks(kBlocks);
  finish(what);
  require_cuda(cudaMemcpyAsync(blocks.data(), found_, blocks.size() * sizeof(Differences),
                               cudaMemcpyDeviceToHost, stream_),
               what);
  finish(what);
  Differences all{};
  for (const Differences& block : blocks) {
    if (block.count == 0) continue;
    const std::uint64_t count = all.count + block.count;
    if (all.count == 0 || block.first < all.first) all = block;
    all.count = count;
  }
  if (all.count == 0) return {};
  return fmt::format("{}: {} of {} words differ, first word {}: got {:#010x}, expected {:#010x}",
                     what, all.count, bytes / 4, all.first, all.got, all.want);
}

std::size_t Gpu::free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  require_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

}  // namespace tilelace::comm::test
