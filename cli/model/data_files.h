// SPDX-License-Identifier: Apache-2.0
// Files that come with Tilelace (models/, machines/): found by name.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tilelace::model {

/// Where a folder ("models") may lie, best first: in `data` (TILELACE_DATA), beside this command or
/// above it (installed, in a build tree or carried elsewhere together with the folder), in the
/// sources it was built from, in the prefix it was configured for.
std::vector<std::filesystem::path> data_places(const std::string& folder,
                                               const std::filesystem::path& command,
                                               const std::optional<std::string>& data);

/// Names (stems) of the JSON files of a folder of the source tree ("models"), sorted.
std::vector<std::string> known_files(const std::string& folder);

/// For errors: "one of a, b", or that there are none and every place that was looked at.
std::string known_names(const std::string& folder);

/// The file of that plain name in the folder, if there is one.
std::optional<std::filesystem::path> known_file(const std::string& folder, const std::string& name);

}  // namespace tilelace::model
