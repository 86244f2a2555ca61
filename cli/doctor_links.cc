// SPDX-License-Identifier: Apache-2.0
// All GPUs of the machine, also those that CUDA_VISIBLE_DEVICES hides, and what lies between them.
// NVML is loaded at run time, by the few functions that are asked here: its header is not needed.
#include <array>
#include <map>
#include <string>
#include <vector>

#include "doctor.h"
#include "machine.h"

namespace tilelace::cli {
namespace {

using Device = void*;
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
constexpr int kByNvlink = 2;     // NVML_P2P_CAPS_INDEX_NVLINK
constexpr unsigned kLinks = 36;  // of a GPU at most

/// nvmlGpuTopologyLevel_t, from the nearest to the farthest.
std::string path_name(int level) {
  if (level <= 0) return "the same board";
  if (level <= 10) return "PCIe, one switch";
  if (level <= 20) return "PCIe, several switches";
  if (level <= 30) return "PCIe, one host bridge";
  if (level <= 40) return "PCIe, one NUMA node";
  return "PCIe, another socket";
}

class Nvml {
 public:
  /// The devices; empty without a driver.
  [[nodiscard]] std::vector<Device> devices() const {
    const auto init = library_.find<int()>("nvmlInit_v2");
    const auto count_of = library_.find<int(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto at = library_.find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    unsigned count = 0;
    if (init == nullptr || count_of == nullptr || at == nullptr || init() != 0 ||
        count_of(&count) != 0)
      return {};
    std::vector<Device> all;
    for (unsigned d = 0; d < count; ++d) {
      Device device = nullptr;
      if (at(d, &device) != 0) return {};
      all.push_back(device);
    }
    return all;
  }
  [[nodiscard]] std::string name_of(Device device) const {
    std::array<char, 96> name{};
    const auto get = library_.find<int(Device, char*, unsigned)>("nvmlDeviceGetName");
    return get != nullptr && get(device, name.data(), name.size() - 1) == 0 ? name.data()
                                                                            : "unnamed";
  }
  [[nodiscard]] std::string memory_of(Device device) const {
    Memory memory{};
    const auto get = library_.find<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo");
    if (get == nullptr || get(device, &memory) != 0) return "unknown memory";
    return show_bytes(static_cast<std::int64_t>(memory.total)) + ", " +
           show_bytes(static_cast<std::int64_t>(memory.free)) + " free";
  }
  [[nodiscard]] int active_links(Device device) const {
    const auto get = library_.find<int(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState");
    int active = 0;
    for (unsigned link = 0; get != nullptr && link < kLinks; ++link) {
      int on = 0;
      if (get(device, link, &on) == 0 && on != 0) ++active;
    }
    return active;
  }
  /// "NVLink" or by which way of PCIe.
  [[nodiscard]] std::string between(Device a, Device b) const {
    const auto status = library_.find<int(Device, Device, int, int*)>("nvmlDeviceGetP2PStatus");
    const auto level =
        library_.find<int(Device, Device, int*)>("nvmlDeviceGetTopologyCommonAncestor");
    int value = -1;
    if (status != nullptr && status(a, b, kByNvlink, &value) == 0 && value == 0) return "NVLink";
    return level != nullptr && level(a, b, &value) == 0 ? path_name(value) : "unknown";
  }

 private:
  Library library_ = Library{"libnvidia-ml.so.1"};
};

}  // namespace

void report_links(Report& report) {
  const Nvml nvml;
  const std::vector<Device> all = nvml.devices();
  for (std::size_t d = 0; d < all.size(); ++d) {
    std::map<std::string, std::string> peers;
    for (std::size_t p = 0; p < all.size(); ++p)
      if (p != d) peers[nvml.between(all[d], all[p])] += fmt::format(" {}", p);
    std::string text = fmt::format("{}, {}, {} NVLinks up", nvml.name_of(all[d]),
                                   nvml.memory_of(all[d]), nvml.active_links(all[d]));
    for (const auto& [way, which] : peers) text += fmt::format("; to{}: {}", which, way);
    report.line(fmt::format("machine's GPU {}", d), text);
  }
}

}  // namespace tilelace::cli
