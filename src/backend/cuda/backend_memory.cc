// SPDX-License-Identifier: Apache-2.0
// Memory of GPU ranks, theirs and the caller's.
#include <algorithm>

#include "backend/cuda/backend.h"
#include "backend/cuda/base/cuda_check.h"
#include "comm/cuda/device_memory.h"
#include "comm/cuda/driver.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

class DeviceRankMemory : public RankMemory {
 public:
  DeviceRankMemory(int device, std::size_t bytes) : device_(device) {
    const comm::DeviceScope scope(device, "device buffer");
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "memory for a device buffer");
    data_ = static_cast<std::byte*>(memory);
    cudaError_t status = cudaMemset(data_, 0, bytes);
    if (status == cudaSuccess) status = cudaStreamSynchronize(nullptr);
    if (status != cudaSuccess) cudaFree(data_);
    check(status, "clearing a device buffer");
  }
  ~DeviceRankMemory() override {
    if (comm::driver_if_alive() != nullptr) cudaFree(data_);
  }
  DeviceRankMemory(const DeviceRankMemory&) = delete;
  DeviceRankMemory& operator=(const DeviceRankMemory&) = delete;

  [[nodiscard]] std::byte* data() const override { return data_; }
  void copy(void* to, const void* from, std::size_t bytes) const override {
    if (bytes == 0) return;
    const comm::DeviceScope scope(device_, "device buffer");
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy of a device buffer");
    // Copies from pageable host memory may return while the last part is on its way.
    check(cudaStreamSynchronize(nullptr), "a copy of a device buffer");
  }

 private:
  int device_;
  std::byte* data_ = nullptr;
};

}  // namespace

void require_on_device(std::string_view op, TensorName name, const TensorView& t, int device) {
  if (t.rows == 0 || t.cols == 0 || t.data == nullptr) return;
  require(t.rows == 1 || t.stride == t.cols,
          "{}: {}: got a row stride of {}, expected {}: GPUs take contiguous rows", op, name,
          t.stride, t.cols);
  cudaPointerAttributes at{};
  const cudaError_t status = cudaPointerGetAttributes(&at, t.data);
  cudaGetLastError();
  const bool known = status == cudaSuccess &&
                     (at.type == cudaMemoryTypeDevice || at.type == cudaMemoryTypeManaged);
  require(known, "{}: {}: got host memory, expected memory of device {}", op, name, device);
  require(at.type == cudaMemoryTypeManaged || at.device == device,
          "{}: {}: got memory of device {}, expected memory of device {}", op, name, at.device,
          device);
}

std::unique_ptr<RankMemory> make_device_memory(int device, std::size_t bytes) {
  return std::make_unique<DeviceRankMemory>(device, std::max<std::size_t>(bytes, 1));
}

ReachableMemory GpuBackend::allocate(std::size_t bytes) {
  auto memory = comm::allocate_device(group_, device_, bytes, options_.timeout_s,
                                      machine_.multicast == Multicast::usable);
  reachable_.push_back(memory);
  return {memory, memory->base(), memory->stride(), memory->bytes()};
}

ReachableTensor GpuBackend::reachable(const TensorView& tensor) const {
  const auto* const at = static_cast<const std::byte*>(tensor.data);
  const auto bytes = static_cast<std::size_t>(tensor.rows * tensor.cols) * size_of(tensor.dtype);
  for (std::size_t i = 0; i < reachable_.size(); ++i) {
    const auto memory = reachable_[i].lock();
    if (memory == nullptr || at < memory->local()) continue;
    const auto offset = static_cast<std::size_t>(at - memory->local());
    if (offset <= memory->bytes() && bytes <= memory->bytes() - offset)
      return {memory->base(), memory->stride(), offset, static_cast<std::uint32_t>(i),
              memory->multicast()};
  }
  return {};
}

std::unique_ptr<RankMemory> GpuBackend::make_memory(std::size_t bytes) {
  return make_device_memory(device_, bytes);
}

}  // namespace tilelace::cuda
