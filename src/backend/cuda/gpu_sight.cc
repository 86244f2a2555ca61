// SPDX-License-Identifier: Apache-2.0
// NVML is loaded at run time, by the few functions that are asked here: its header is not needed.
#include "backend/gpu_sight.h"

#include <dlfcn.h>

#include <array>
#include <exception>
#include <type_traits>

#include "comm/cuda/capabilities.h"
#include "tilelace/error.h"

namespace tilelace {
namespace {

/// nvml.h's.
constexpr int kSuccess = 0, kTooSmall = 7;
constexpr std::uint64_t kHwSlowdown = 0x8, kSwThermal = 0x20, kHwThermal = 0x40, kPowerBrake = 0x80;
struct ProcessInfo {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned instance, compute_instance;
};

struct Nvml {
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  bool usable = false;

  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    int (*init)() = nullptr;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    usable = find(init, "nvmlInit_v2") && find(by_uuid, "nvmlDeviceGetHandleByUUID") &&
             find(processes, "nvmlDeviceGetComputeRunningProcesses_v3") &&
             find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons") && init() == kSuccess;
  }
};

/// Never shut down: others in the process may use the library, too.
const Nvml& nvml() {
  static const Nvml known;
  return known;
}

}  // namespace

GpuSight look_at_gpu(int device) noexcept {
  GpuSight sight;
  try {
    if (!nvml().usable) return sight;
    void* handle = nullptr;
    if (nvml().by_uuid(comm::query_capabilities(device).uuid.c_str(), &handle) != kSuccess)
      return sight;
    std::array<ProcessInfo, 64> all{};
    unsigned count = all.size();
    const int status = nvml().processes(handle, &count, all.data());
    if (status == kSuccess || status == kTooSmall) sight.processes = static_cast<int>(count);
    unsigned long long reasons = 0;
    if (nvml().reasons(handle, &reasons) == kSuccess)
      sight.slowdowns = reasons & (kHwSlowdown | kSwThermal | kHwThermal | kPowerBrake);
  } catch (const std::exception&) {  // without a driver there is nothing to see
  }
  return sight;
}

}  // namespace tilelace
