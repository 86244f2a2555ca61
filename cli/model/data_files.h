// SPDX-License-Identifier: Apache-2.0
// Files that come with Tilelace (models/, machines/): found by name.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tilelace::model {

/// Names (stems) of the JSON files of a folder of the source tree ("models"), sorted.
std::vector<std::string> known_files(const std::string& folder);

/// The file of that plain name in the folder, if there is one.
std::optional<std::filesystem::path> known_file(const std::string& folder, const std::string& name);

}  // namespace tilelace::model
