// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "backend/cuda/rank/reachable_tensor.h"
#include "comm/cuda/device_memory.h"

namespace tilelace::gpu_test {

/// Memory for results that peers can reach. Collective. Errors: those of comm::allocate_device.
class ReachableMemory {
 public:
  ReachableMemory(comm::Group& group, int device, std::size_t bytes, double timeout_s)
      : memory_(comm::allocate_device(group, device, bytes, timeout_s)) {}
  [[nodiscard]] std::byte* data() const { return memory_->local(); }
  [[nodiscard]] cuda::ReachableTensor at(const void* out) const {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(out) - data());
    return {memory_->base(), memory_->stride(), offset, 0};
  }

 private:
  std::shared_ptr<comm::DeviceMemory> memory_;
};

}  // namespace tilelace::gpu_test
