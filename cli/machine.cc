// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

namespace tilelace::cli {
namespace {

std::string trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

std::optional<std::int64_t> number_in(const char* file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max" too
}

std::optional<std::int64_t> meminfo(const char* key) {
  const auto line = find_line("/proc/meminfo", key);
  if (!line) return std::nullopt;
  return std::strtoll(line->c_str(), nullptr, 10) * 1024;
}

}  // namespace

std::optional<std::string> find_line(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == key) {
      return trim(std::string_view(line).substr(colon + 1));
    }
  }
  return std::nullopt;
}

std::string cpu_model() {
  for (const char* key : {"model name", "Model", "Processor", "CPU implementer"}) {
    if (auto found = find_line("/proc/cpuinfo", key); found && !found->empty()) return *found;
  }
  return "unknown CPU";
}

int cpu_cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

std::vector<std::string> cpu_flags() {
  auto line = find_line("/proc/cpuinfo", "flags");
  if (!line) line = find_line("/proc/cpuinfo", "Features");
  std::istringstream in(line.value_or(""));
  std::vector<std::string> flags;
  for (std::string flag; in >> flag;) flags.push_back(flag);
  return flags;
}

std::string device_name() { return fmt::format("{}, {} cores", cpu_model(), cpu_cores()); }

std::optional<std::int64_t> available_memory() {
  auto available = meminfo("MemAvailable");
  const auto most = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (most && used) {
    const std::int64_t left = std::max<std::int64_t>(0, *most - *used);
    available = available ? std::min(*available, left) : left;
  }
  return available;
}

std::optional<std::int64_t> total_memory() { return meminfo("MemTotal"); }

std::string show_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

double seconds_now() {
  using Clock = std::chrono::steady_clock;  // one clock for all processes of the machine
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace tilelace::cli
