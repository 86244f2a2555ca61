// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "comm/group.h"

namespace tilelace::comm {

/// How an allocation came about, for reports. Times are this rank's, waits for peers included.
struct SetupFacts {
  double create_us = 0;    ///< own memory made
  double exchange_us = 0;  ///< exported, passed around
  double map_us = 0;       ///< every rank's memory imported, mapped, opened to this device
  double zero_us = 0;
  bool fabric = false;        ///< made so that it can be exported over NVLink fabric, too
  std::string fabric_reason;  ///< why not
};

/// GPU memory of equal size on every rank: peer(r) = base + r * stride, the same numbers for host
/// calls (memcpy, stream writes, tensor maps) and in kernels.
/// Destroy: local, no peer is waited for; own work on the memory must be done. What a peer (alive
/// or dead) gave stays valid until this rank destroys its view, and the other way round.
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
  /// All ranks' memory at once, for instructions that the switch carries out; null where it was not
  /// asked for. Offsets are the same as in each rank's.
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

/// Zero-filled. Every rank passes the same bytes and its own CUDA device ordinal; ranks may share a
/// device. Collective, bounded (what the driver itself takes is not). The memory is mapped into one
/// range: of the process where ranks are threads, else of each process.
/// `multicast`: also mapped for the switch, on ranks with a device each; the option of the same
/// name (comm/multicast_permit.h). Equal on every rank. Errors: usage (sizes or options differ, no
/// such device, no permit for multicast or a device without it: on every rank), system (no driver,
/// no memory, no peer access, no multicast granted: on every rank, naming the rank and the driver's
/// words), peer, timeout. After a usage or system error the group goes on, and nothing is left
/// behind.
std::shared_ptr<DeviceMemory> allocate_device(Group& group, int device, std::size_t bytes,
                                              double timeout_s, bool multicast = false);

}  // namespace tilelace::comm
