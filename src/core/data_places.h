// SPDX-License-Identifier: Apache-2.0
// Where data files of Tilelace (models/, machines/, tuning/) may be.
#pragma once
#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace tilelace {

/// Paths where a folder such as "models" may be, best first. First comes `data` (TILELACE_DATA).
/// Next come the folder of `file` (a program or library) and the three folders above it, each after
/// its own share/tilelace. At the end come the `last` folders. For a program in build/<preset>/bin,
/// the third folder above is the source tree.
inline std::vector<std::filesystem::path> data_places(
    const std::string& folder, const std::filesystem::path& file,
    const std::optional<std::string>& data, std::initializer_list<std::filesystem::path> last) {
  constexpr int kFoldersAbove = 4;
  std::vector<std::filesystem::path> places;
  const auto add = [&](const std::filesystem::path& place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  };
  if (data) add(std::filesystem::path(*data) / folder);
  std::filesystem::path above = file.parent_path();
  for (int i = 0; i < kFoldersAbove && above.has_relative_path(); ++i) {
    add(above / "share/tilelace" / folder);
    add(above / folder);
    above = above.parent_path();
  }
  for (const auto& place : last) add(place / folder);
  return places;
}

}  // namespace tilelace
