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

/// Memory sizes must be multiples of this in a multicast object of `ranks` ranks, `bytes` each.
/// Errors: usage (the device does not support multicast), system.
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
  /// Adds a device; all devices must be added before any memory. Error: system.
  void join(const MulticastPermit&, CUdevice device, std::string_view op) const;
  [[nodiscard]] const MemoryHandle& handle() const { return handle_; }

 private:
  MemoryHandle handle_;
};

/// One rank's memory bound to an object, and the object mapped for the rank's device. Destroy the
/// mapping before the memory: the destructor unmaps the object, unbinds the memory and drops its
/// reference to the object. Peers that use the object afterwards get an error.
class MulticastMapping {
 public:
  /// All devices must have been added; `bytes` is a multiple of the granularity. Error: system,
  /// with nothing left allocated.
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
