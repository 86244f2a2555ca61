// SPDX-License-Identifier: Apache-2.0
// Finds files that come with Tilelace (models/, machines/) by their names.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tilelace::model {

/// Paths at which a folder ("models") may be, best first: in `data` (TILELACE_DATA); beside or
/// above `command` (installed, in a build tree, or copied elsewhere with the folder); in the
/// sources that the command was built from; in the install prefix of that build.
std::vector<std::filesystem::path> data_places(const std::string& folder,
                                               const std::filesystem::path& command,
                                               const std::optional<std::string>& data);

/// Names (stems) of the JSON files in all places of a folder ("models"), sorted, each once.
std::vector<std::string> known_files(const std::string& folder);

/// For errors: "one of a, b"; if there are no files, says so and lists the places searched.
std::string known_names(const std::string& folder);

/// The file in the folder whose stem is this name, if there is one.
std::optional<std::filesystem::path> known_file(const std::string& folder, const std::string& name);

}  // namespace tilelace::model
