// SPDX-License-Identifier: Apache-2.0
// What a GPU and its links can do, as reported by the driver.
#pragma once
#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace tilelace::comm {

/// The link from a device to another device that this process sees.
struct PeerLink {
  int device = -1;
  bool access = false;
  bool native_atomics = false;
  int performance_rank = 0;  ///< 0 is the fastest kind of link on this machine
  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

struct Capabilities {
  int device = -1;
  std::string name;
  std::string uuid;
  int sm_count = 0;
  int compute_major = 0;
  int compute_minor = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  double memory_bytes_per_s = 0;  ///< computed from clock and bus width; 0: unknown
  int copy_engines = 0;
  bool vmm = false;
  bool posix_fd = false;
  bool fabric = false;        ///< whether a trial allocation got a fabric handle
  std::string fabric_reason;  ///< why there is no fabric handle
  bool multicast = false;     ///< value of the device's attribute, which is not tested
  bool host_native_atomics = false;
  int driver_version = 0;  ///< 13000 means 13.0
  int runtime_version = 0;
  std::vector<PeerLink> peers;
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// How many devices this process sees. Error: system (no driver).
int device_count();

/// The device of a rank: the only visible device if the launcher hides all others, else device
/// number `local_rank`. Errors: usage, system.
int device_of(int local_rank);

/// Not collective. Errors: usage (no such device), system (no driver).
Capabilities query_capabilities(int device);

std::ostream& operator<<(std::ostream& out, const Capabilities& c);

}  // namespace tilelace::comm
