// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/cuda/driver.h"

namespace tilelace::comm {
namespace {
constexpr const char* kOp = "allocate_host";
}

HostMemory::HostMemory(int device, std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  device_handle(device, kOp);
  const DeviceScope scope(device, kOp);
  void* host = nullptr;
  void* seen = nullptr;
  require_runtime(cudaHostAlloc(&host, bytes_, cudaHostAllocPortable | cudaHostAllocMapped), kOp,
                  fmt::format("cudaHostAlloc of {} bytes", bytes_));
  const cudaError_t mapped = cudaHostGetDevicePointer(&seen, host, 0);
  if (mapped != cudaSuccess) cudaFreeHost(host);
  require_runtime(mapped, kOp, "cudaHostGetDevicePointer");
  std::memset(host, 0, bytes_);
  host_ = static_cast<std::byte*>(host);
  device_ = static_cast<std::byte*>(seen);
}

HostMemory::~HostMemory() {
  if (driver_if_alive() != nullptr) cudaFreeHost(host_);
}

}  // namespace tilelace::comm
