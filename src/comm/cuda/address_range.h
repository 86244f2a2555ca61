// SPDX-License-Identifier: Apache-2.0
// Physical memory of a GPU, and an address range that holds the memory of all ranks side by side.
#pragma once
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/cuda/driver.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

/// A reference to physical memory. A mapping keeps the memory alive by itself, so this object may
/// be destroyed after mapping.
class MemoryHandle {
 public:
  MemoryHandle() = default;
  explicit MemoryHandle(CUmemGenericAllocationHandle handle) : handle_(handle), held_(true) {}
  MemoryHandle(MemoryHandle&& other) noexcept
      : handle_(other.handle_), held_(std::exchange(other.held_, false)) {}
  MemoryHandle& operator=(MemoryHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(held_, other.held_);
    return *this;
  }
  ~MemoryHandle();
  [[nodiscard]] CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  bool held_ = false;
};

/// Callers round memory sizes and strides up to multiples of this number of bytes.
std::size_t recommended_granularity(CUdevice device, std::string_view op);

struct PhysicalMemory {
  MemoryHandle handle;
  bool fabric = false;
  std::string fabric_reason;  ///< why there is no fabric handle, in the driver's words
};

/// Makes memory that can be exported as a descriptor, and as a fabric handle if the driver grants
/// one. Error: system.
PhysicalMemory create_memory(CUdevice device, std::size_t bytes, std::string_view op);

/// Error: system.
UniqueFd export_memory(const MemoryHandle& memory, std::string_view op);
MemoryHandle import_memory(int fd, std::string_view op);

/// A reserved range of ranks * stride addresses. Several ranks may map memory into it at the same
/// time, each at its own place.
class AddressRange {
 public:
  /// Error: system.
  AddressRange(int ranks, std::size_t stride, std::size_t alignment, std::string_view op);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  [[nodiscard]] std::byte* at(int rank) const { return std::bit_cast<std::byte*>(address(rank)); }

  /// Maps a rank's memory at its place and gives these devices access. Error: system.
  void map(int rank, const MemoryHandle& memory, std::span<const CUdevice> devices,
           std::string_view op);

 private:
  [[nodiscard]] CUdeviceptr address(int rank) const {
    return base_ + static_cast<std::size_t>(rank) * stride_;
  }

  CUdeviceptr base_ = 0;
  std::size_t stride_;
  std::vector<unsigned char> mapped_;  ///< one byte per rank, since ranks write at the same time
};

}  // namespace tilelace::comm
