// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "comm/group.h"

namespace tilelace::comm {

/// How long an allocation took, for reports. Times are this rank's, with waits for peers.
struct SetupFacts {
  double create_us = 0;    ///< own memory made
  double exchange_us = 0;  ///< exported, passed around
  double map_us = 0;       ///< every rank's memory imported, mapped, opened to this device
  double zero_us = 0;
  bool fabric = false;        ///< exportable over NVLink fabric too
  std::string fabric_reason;  ///< why not
};

/// GPU memory of equal size on every rank: peer(r) = base + r * stride, for host calls (memcpy,
/// stream writes, tensor maps) and in kernels alike. Destruction is local and waits for no peer;
/// this rank's work on the memory must have ended before. Memory of a peer, alive or dead, stays
/// valid until this rank destroys its own view, and vice versa.
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
  /// All ranks' memory under one address, for multimem instructions; null if not asked for. Offsets
  /// are the same as in each rank's memory.
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

/// Zero-filled. Every rank passes the same bytes and its own CUDA device ordinal; ranks may
/// share a device. Collective, bounded (except time inside the driver). All ranks' memory
/// is mapped into one range, per process. `multicast`: also mapped for multicast, which
/// needs a device per rank and the option of the same name (comm/multicast_permit.h). Equal
/// on every rank. Errors: usage (sizes or options differ, no such device, no permit for
/// multicast or a device without it; on every rank), system (no driver, no memory, no peer
/// access, no multicast; on every rank, naming the rank and the driver's error), peer,
/// timeout. After a usage or system error the group stays usable and nothing is left
/// allocated.
std::shared_ptr<DeviceMemory> allocate_device(Group& group, int device, std::size_t bytes,
                                              double timeout_s, bool multicast = false);

}  // namespace tilelace::comm
