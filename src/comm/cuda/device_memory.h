// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "comm/group.h"

namespace tilelace::comm {

/// How long the steps of an allocation took, for reports. Times are this rank's and include waits
/// for peers.
struct SetupFacts {
  double create_us = 0;    ///< making this rank's memory
  double exchange_us = 0;  ///< exporting this rank's memory and exchanging handles
  double map_us = 0;       ///< importing and mapping every rank's memory
  double zero_us = 0;
  bool fabric = false;        ///< whether the memory can also be exported over NVLink fabric
  std::string fabric_reason;  ///< why the memory cannot be exported over NVLink fabric
};

/// GPU memory of equal size on every rank. peer(r) = base + r * stride is valid in kernels and in
/// host calls (memcpy, stream writes, tensor maps). Destruction does not wait for peers; this
/// rank's work on the memory must have ended before. All ranks' memory stays valid here until this
/// rank destroys this object, even if a peer has died or has destroyed its own object.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory();

  [[nodiscard]] std::byte* base() const { return layout_.base; }
  [[nodiscard]] std::byte* peer(int rank) const {
    return layout_.base + static_cast<std::size_t>(rank) * layout_.stride;
  }
  [[nodiscard]] std::byte* local() const { return peer(layout_.rank); }
  [[nodiscard]] std::size_t bytes() const { return layout_.bytes; }
  [[nodiscard]] std::size_t stride() const { return layout_.stride; }
  [[nodiscard]] int rank() const { return layout_.rank; }
  [[nodiscard]] int ranks() const { return layout_.ranks; }
  [[nodiscard]] int device() const { return layout_.device; }
  /// All ranks' memory under one address, for multimem instructions; null: allocated without
  /// multicast. Offsets are the same as in each rank's memory.
  [[nodiscard]] std::byte* multicast() const { return layout_.multicast; }
  [[nodiscard]] const SetupFacts& facts() const { return facts_; }

 protected:
  struct Layout {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    std::size_t stride = 0;
    int rank = 0;
    int ranks = 0;
    int device = 0;
    std::byte* multicast = nullptr;
  };
  explicit DeviceMemory(const Layout& layout, SetupFacts facts = {})
      : layout_(layout), facts_(std::move(facts)) {}

 private:
  Layout layout_;
  SetupFacts facts_;
};

/// Allocates zero-filled memory. Every rank passes the same size and its own CUDA device ordinal;
/// ranks may share a device. Collective, bounded (except time inside the driver). Each process maps
/// the memory of all ranks into one range. `multicast` (equal on every rank): the memory is also
/// mapped for multicast, which needs a device per rank and a permit (comm/multicast_permit.h).
/// Errors, on every rank: usage (sizes or options differ, no such device, no permit for multicast,
/// a device without multicast), system (no driver, no memory, no peer access, no multicast; the
/// text names the rank and the driver's error), peer, timeout. After a usage or system error the
/// group stays usable and nothing is left allocated.
std::shared_ptr<DeviceMemory> allocate_device(Group& group, int device, std::size_t bytes,
                                              double timeout_s, bool multicast = false);

}  // namespace tilelace::comm
