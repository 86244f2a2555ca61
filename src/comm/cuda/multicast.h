// SPDX-License-Identifier: Apache-2.0
// Memory of all ranks under one address, for multimem instructions of the NVLink switch. Nothing
// here calls the driver's multicast functions without a permit.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "comm/cuda/address_range.h"
#include "comm/multicast_permit.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

/// Memory bound to a multicast object of `ranks` ranks, each with `bytes` bytes, must have a size
/// that is a multiple of the result. Errors: usage (the device does not support multicast), system.
std::size_t multicast_granularity(const MulticastPermit&, CUdevice device, int ranks,
                                  std::size_t bytes, std::string_view op);

/// A reference to a multicast object. Threads share one reference; processes import the object.
class MulticastObject {
 public:
  /// Makes an object. Error: system.
  MulticastObject(const MulticastPermit&, int ranks, std::size_t bytes, std::string_view op);
  /// Imports another process's object. Error: system.
  MulticastObject(const MulticastPermit&, int fd, std::string_view op)
      : handle_(import_memory(fd, op)) {}

  /// Error: system.
  [[nodiscard]] UniqueFd share(std::string_view op) const { return export_memory(handle_, op); }
  /// Adds a device. All devices must be added before memory is bound. Error: system.
  void join(const MulticastPermit&, CUdevice device, std::string_view op) const;
  [[nodiscard]] const MemoryHandle& handle() const { return handle_; }

 private:
  MemoryHandle handle_;
};

/// Binds one rank's memory to an object and maps the object for the rank's device. The destructor
/// unmaps the object, unbinds the memory and drops the reference to the object, so destroy the
/// mapping before the memory. Peers that use the object afterwards get an error.
class MulticastMapping {
 public:
  /// All devices must have been added, and `bytes` must be a multiple of the granularity. Error:
  /// system, with nothing left allocated.
  MulticastMapping(const MulticastPermit&, std::shared_ptr<MulticastObject> object, CUdevice device,
                   const MemoryHandle& memory, std::size_t bytes, std::size_t granularity,
                   std::string_view op);
  ~MulticastMapping();
  MulticastMapping(const MulticastMapping&) = delete;
  MulticastMapping& operator=(const MulticastMapping&) = delete;
  [[nodiscard]] std::byte* base() const { return range_->at(0); }

 private:
  std::shared_ptr<MulticastObject> object_;
  CUdevice device_;
  std::size_t bytes_;
  CUresult (*unbind_)(CUmemGenericAllocationHandle, CUdevice, std::size_t, std::size_t) = nullptr;
  std::unique_ptr<AddressRange> range_;
};

}  // namespace tilelace::comm
