// SPDX-License-Identifier: Apache-2.0
// The architectures of GPUs that kernels are made for: this table alone names them.
// cmake/cuda.cmake reads its rows for nvcc's flags; the backend, the command and the package ask.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace tilelace {

struct Architecture {
  std::string_view name;     ///< as nvcc has it
  std::string_view devices;  ///< as errors call what runs it
  int major = 0;             ///< compute capability
  int minor = 0;
};

inline constexpr std::array kArchitectures{Architecture{"sm_90a", "sm_90", 9, 0}};

/// Whether there are kernels for devices of this compute capability.
constexpr bool has_kernels(int major, int minor) {
  for (const Architecture& a : kArchitectures)
    if (a.major == major && a.minor == minor) return true;
  return false;
}

/// What there are kernels for, as errors say it.
inline std::string devices_with_kernels() {
  std::string text;
  for (const Architecture& a : kArchitectures)
    text += (text.empty() ? "" : " or ") + std::string(a.devices);
  return text;
}

}  // namespace tilelace
