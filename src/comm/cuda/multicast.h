// SPDX-License-Identifier: Apache-2.0
// Memory of all ranks under one address, for instructions that the switch carries out. Nothing here
// calls the driver's multicast functions without a permit.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "comm/cuda/address_range.h"
#include "comm/multicast_permit.h"
#include "comm/unique_fd.h"

namespace tilelace::comm {

/// Of an object for so many ranks and bytes a rank: what the memory of each must be a multiple of.
/// Errors: usage (the device does not support multicast), system.
std::size_t multicast_granularity(const MulticastPermit&, CUdevice device, int ranks,
                                  std::size_t bytes, std::string_view op);

/// A reference to a multicast object. Threads share one, processes import it.
class MulticastObject {
 public:
  /// Makes one. Error: system.
  MulticastObject(const MulticastPermit&, int ranks, std::size_t bytes, std::string_view op);
  /// Another process's. Error: system.
  MulticastObject(const MulticastPermit&, int fd, std::string_view op)
      : handle_(import_memory(fd, op)) {}

  /// Error: system.
  [[nodiscard]] UniqueFd share(std::string_view op) const { return export_memory(handle_, op); }
  /// Every rank's device joins before any rank's memory does. Error: system.
  void join(const MulticastPermit&, CUdevice device, std::string_view op) const;
  [[nodiscard]] const MemoryHandle& handle() const { return handle_; }

 private:
  MemoryHandle handle_;
};

/// One rank's memory as part of an object, and the object mapped for its device. Destroyed before
/// the memory: first the addresses, then the tie, then the object. From then on peers' use of the
/// object is an error of theirs.
class MulticastMapping {
 public:
  /// All devices have joined; `bytes` is a multiple of the granularity. Error: system, with nothing
  /// left behind.
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
