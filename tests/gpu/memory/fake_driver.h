// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime and driver made of memfds and mmap, linked instead of the true ones: shows what
// allocate_device does when calls fail, on machines without a GPU.
#pragma once
#include <string>
#include <vector>

namespace tilelace::comm::test::fake {

constexpr int kDevices = 4;

/// The next call of this driver function in this thread fails; empty: none does.
void fail_next(const std::string& function);
/// Whether the failure that was asked for in this thread has happened.
bool has_failed();

/// What is not let go of yet.
struct Live {
  int handles = 0;
  int ranges = 0;
  int mappings = 0;
  int bound = 0;  ///< memory in multicast objects
  friend bool operator==(const Live&, const Live&) = default;
};
Live live();

/// What was done to multicast objects since this was asked last, of all threads: "create 2",
/// "add", "bind", "map", "unmap", "unbind", "release".
std::vector<std::string> multicast_events();

/// Settings for all threads: set them before ranks start.
struct Machine {
  bool peer_access = true;
  bool fabric_supported = false;
  bool fabric_granted = false;
  bool multicast_supported = true;
};
inline Machine machine;

}  // namespace tilelace::comm::test::fake
