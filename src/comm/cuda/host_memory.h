// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace tilelace::comm {

/// Zero-filled, page-locked host memory for timeout records and abort words that kernels of this
/// process access. No call is collective. Destroy the object only when no kernel uses the memory.
class HostMemory {
 public:
  /// Errors: usage (no such device), system (no driver, no memory).
  HostMemory(int device, std::size_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// The memory's address on the host.
  [[nodiscard]] std::byte* host() const { return host_; }
  /// The memory's address for kernels of the device.
  [[nodiscard]] std::byte* device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  std::size_t bytes_;
};

}  // namespace tilelace::comm
