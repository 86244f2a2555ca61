// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/capabilities.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "comm/cuda/address_range.h"
#include "comm/cuda/driver.h"
#include "comm/cuda/peer_access.h"
#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr const char* kOp = "capabilities";

PeerLink query_link(CUdevice from, int device) {
  const CUdevice to = device_handle(device, kOp);
  const auto ask = [&](CUdevice_P2PAttribute attribute) {
    int value = 0;
    require_driver(driver(kOp).p2p_attribute(&value, attribute, from, to), kOp,
                   "cuDeviceGetP2PAttribute");
    return value;
  };
  return {device, ask(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED) != 0,
          ask(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) != 0,
          ask(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)};
}

/// Only making some memory tells whether fabric handles are granted.
void query_fabric(CUdevice device, Capabilities& c) {
  if (!c.vmm || !c.posix_fd) {
    c.fabric_reason = "the device does not support memory with descriptors";
    return;
  }
  try {
    const PhysicalMemory memory = create_memory(device, recommended_granularity(device, kOp), kOp);
    c.fabric = memory.fabric;
    c.fabric_reason = memory.fabric_reason;
  } catch (const Error& e) {
    c.fabric_reason = e.what();
  }
}

std::string yes_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

int device_count() {
  driver(kOp);
  int count = 0;
  require_runtime(cudaGetDeviceCount(&count), kOp, "cudaGetDeviceCount");
  return count;
}

int device_of(int local_rank) {
  const int count = device_count();
  if (count == 1) return 0;
  require(local_rank >= 0 && local_rank < count,
          "device: local rank: got {} with {} devices visible, expected 0 to {}", local_rank, count,
          count - 1);
  return local_rank;
}

Capabilities query_capabilities(int device) {
  const CUdevice handle = device_handle(device, kOp);
  const Driver& d = driver(kOp);
  const auto ask = [&](CUdevice_attribute a) { return device_attribute(handle, a, kOp); };
  Capabilities c;
  c.device = device;
  std::array<char, 256> name{};
  require_driver(d.device_name(name.data(), static_cast<int>(name.size()), handle), kOp,
                 "cuDeviceGetName");
  require_driver(d.device_total_mem(&c.memory_bytes, handle), kOp, "cuDeviceTotalMem");
  require_runtime(cudaDriverGetVersion(&c.driver_version), kOp, "cudaDriverGetVersion");
  require_runtime(cudaRuntimeGetVersion(&c.runtime_version), kOp, "cudaRuntimeGetVersion");
  c.name = name.data();
  c.uuid = uuid_of(device);
  c.sm_count = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  c.compute_major = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  c.compute_minor = ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  c.l2_bytes = static_cast<std::size_t>(ask(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  // Twice a clock; kHz and bits.
  c.memory_bytes_per_s = 2e3 * ask(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                         ask(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  c.copy_engines = ask(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  c.vmm = ask(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  c.posix_fd = ask(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
  c.multicast = ask(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) != 0;
  c.host_native_atomics = ask(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED) != 0;
  query_fabric(handle, c);
  const int count = device_count();
  for (int peer = 0; peer < count; ++peer)
    if (peer != device) c.peers.push_back(query_link(handle, peer));
  return c;
}

std::ostream& operator<<(std::ostream& out, const Capabilities& c) {
  const auto version = [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
  out << fmt::format("device {}: {} {}\n", c.device, c.name, c.uuid)
      << fmt::format("  sm_{}{}, {} SMs, L2 {} MiB, memory {} MiB, {} copy engines\n",
                     c.compute_major, c.compute_minor, c.sm_count, c.l2_bytes >> 20,
                     c.memory_bytes >> 20, c.copy_engines)
      << fmt::format("  driver for CUDA {}, runtime {}\n", version(c.driver_version),
                     version(c.runtime_version))
      << fmt::format("  virtual memory {}, descriptors {}, host native atomics {}\n", yes_no(c.vmm),
                     yes_no(c.posix_fd), yes_no(c.host_native_atomics))
      << fmt::format("  fabric handles {}\n",
                     c.fabric ? "granted" : "not granted: " + c.fabric_reason)
      << fmt::format("  multicast: the device says {} (queried only; an object is never created)\n",
                     yes_no(c.multicast));
  for (const PeerLink& p : c.peers)
    out << fmt::format("  to device {}: access {}, native atomics {}, performance rank {}\n",
                       p.device, yes_no(p.access), yes_no(p.native_atomics), p.performance_rank);
  return out;
}

}  // namespace tilelace::comm
