// SPDX-License-Identifier: Apache-2.0
// The GPU architectures for which kernels exist. This table numbers them. Other layers have tables
// with a row under the same number: tiles and their costs in plan/gemm/architecture_plans.cc,
// kernels in backend/cuda/gemm/architecture_kernels.cc. cmake/cuda.cmake reads the rows for nvcc's
// flags; the backend, the command and the package use them too.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tilelace {

struct Architecture {
  std::string_view name;     ///< name as nvcc spells it
  std::string_view devices;  ///< name of these devices in error texts
  int major = 0;             ///< compute capability
  int minor = 0;
};

inline constexpr std::array kArchitectures{Architecture{"sm_90a", "sm_90", 9, 0}};

/// The number of the architecture with this compute capability, or with this name.
constexpr std::optional<int> architecture_of(int major, int minor) {
  for (std::size_t i = 0; i < kArchitectures.size(); ++i)
    if (kArchitectures[i].major == major && kArchitectures[i].minor == minor)
      return static_cast<int>(i);
  return std::nullopt;
}
constexpr std::optional<int> architecture_named(std::string_view name) {
  for (std::size_t i = 0; i < kArchitectures.size(); ++i)
    if (kArchitectures[i].name == name) return static_cast<int>(i);
  return std::nullopt;
}

constexpr bool is_architecture(int number) {
  return number >= 0 && number < static_cast<int>(kArchitectures.size());
}
/// The name of the architecture with this number, or a text that says that there is none.
constexpr std::string_view name_of_architecture(int number) {
  return is_architecture(number) ? kArchitectures.at(static_cast<std::size_t>(number)).name
                                 : "an unknown architecture";
}

/// Whether a layer's table has one row per architecture, in the order of kArchitectures.
template <class Rows>
constexpr bool are_architectures(const Rows& rows) {
  if (rows.size() != kArchitectures.size()) return false;
  for (std::size_t i = 0; i < kArchitectures.size(); ++i)
    if (rows[i].architecture != kArchitectures[i].name) return false;
  return true;
}

/// Whether there are kernels for devices of this compute capability.
constexpr bool has_kernels(int major, int minor) {
  return architecture_of(major, minor).has_value();
}

/// The devices that have kernels, as a text for errors.
inline std::string devices_with_kernels() {
  std::string text;
  for (const Architecture& a : kArchitectures)
    text += (text.empty() ? "" : " or ") + std::string(a.devices);
  return text;
}

/// The names of all architectures, separated by commas.
inline std::string names_of_architectures() {
  std::string text;
  for (const Architecture& a : kArchitectures)
    text += (text.empty() ? "" : ", ") + std::string(a.name);
  return text;
}

}  // namespace tilelace
