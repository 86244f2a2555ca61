// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>

#include "comm/cuda/device_memory.h"

namespace tilelace::comm {

/// A part of symmetric memory, at the same offset on every rank.
struct Region {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

/// Hands out pieces of a DeviceMemory, at the lowest offset that fits. Not collective, but
/// ranks that take and give back the same sizes in the same order get the same offsets.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  explicit Arena(std::shared_ptr<DeviceMemory> memory);

  /// `what` names the region in the error. The memory is not cleared. Error: usage (no room).
  Region take(std::string_view what, std::size_t bytes);
  /// Error: usage (the region is not taken).
  void give_back(const Region& region);

  [[nodiscard]] std::byte* at(const Region& region, int rank) const {
    return memory_->peer(rank) + region.offset;
  }
  [[nodiscard]] std::byte* local(const Region& region) const {
    return memory_->local() + region.offset;
  }
  [[nodiscard]] std::size_t left() const;     ///< bytes of all free pieces
  [[nodiscard]] std::size_t largest() const;  ///< bytes of the largest free piece
  [[nodiscard]] const DeviceMemory& memory() const { return *memory_; }

 private:
  using Pieces = std::map<std::size_t, std::size_t>;  ///< from a piece's offset to its bytes

  std::shared_ptr<DeviceMemory> memory_;
  Pieces free_;
  Pieces taken_;
};

}  // namespace tilelace::comm
