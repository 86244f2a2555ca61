// SPDX-License-Identifier: Apache-2.0
// Whether GPUs reach each other's memory. Devices are known by their uuids, the same in every
// process.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace tilelace::comm {

/// Whether a device may map the memory of the one of this uuid.
struct PeerAccess {
  int device = -1;      ///< the other's number here; -1: hidden from this process
  bool granted = true;  ///< of a hidden one nobody can tell: mapping its memory will
};

/// Local. Errors: usage (no such device), system (no driver).
PeerAccess peer_access(int device, std::string_view uuid);

/// Of a device of this process. Errors: as peer_access.
std::string uuid_of(int device);
std::string uuid_text(const std::array<char, 16>& uuid);

}  // namespace tilelace::comm
