// SPDX-License-Identifier: Apache-2.0
// Whether GPUs can access each other's memory. Devices are named by uuid, which is the same in
// every process.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace tilelace::comm {

/// Whether a device may map memory of the device with this uuid.
struct PeerAccess {
  int device = -1;      ///< the ordinal of the device with the uuid; -1: hidden from this process
  bool granted = true;  ///< true for a hidden device, since only mapping its memory can tell
};

/// Not collective. Errors: usage (no such device), system (no driver).
PeerAccess peer_access(int device, std::string_view uuid);

/// The uuid of a device of this process. Errors: as peer_access.
std::string uuid_of(int device);
std::string uuid_text(const std::array<char, 16>& uuid);

}  // namespace tilelace::comm
