// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <ctime>
#include <fstream>
#include <regex>

#include "backend/cuda/base/cuda_check.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"

namespace tilelace::gpu_test {

using cuda::check;

int choose_ranks(int asked) {
  const int devices = comm::device_count();
  require(devices > 0, "--ranks: got no device, expected at least one");
  const int ranks = asked > 0 ? asked : devices;
  require(ranks >= 2 && ranks <= 16, "--ranks: got {} ({} devices), expected 2 to 16", ranks,
          devices);
  return ranks;
}

bool share_devices(int ranks) { return ranks > comm::device_count(); }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

std::string device_name() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "the name of device 0");
  return properties.name;
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::smatch match;
  if (std::getline(file, line) && std::regex_search(line, match, std::regex(R"((\d+\.\d+[.\d]*))")))
    return match[1];
  int version = 0;
  check(cudaDriverGetVersion(&version), "the driver's version");
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace tilelace::gpu_test
