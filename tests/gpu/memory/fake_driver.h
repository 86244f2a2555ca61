// SPDX-License-Identifier: Apache-2.0
// A fake CUDA runtime and driver, made of memfds and mmap, to link instead of the real ones. Tests
// see what allocate_device does when driver calls fail, on machines without a GPU.
#pragma once
#include <string>
#include <vector>

namespace tilelace::comm::test::fake {

constexpr int kDevices = 4;

/// Makes the next call of this driver function in this thread fail; empty: no call fails.
void fail_next(const std::string& function);
/// Whether the failure requested in this thread has happened.
bool has_failed();

/// Numbers of objects that are not released yet.
struct Live {
  int handles = 0;
  int ranges = 0;
  int mappings = 0;
  int bound = 0;  ///< bindings of memory to multicast objects
  friend bool operator==(const Live&, const Live&) = default;
};
Live live();

/// What all threads did with multicast objects since the previous call: "create 2" (for two
/// devices), "add", "bind", "map", "unmap", "unbind", "release".
std::vector<std::string> multicast_events();

/// Settings for all threads. Set them before ranks start.
struct Machine {
  bool peer_access = true;
  bool fabric_supported = false;
  bool fabric_granted = false;
  bool multicast_supported = true;
};
inline Machine machine;

}  // namespace tilelace::comm::test::fake
