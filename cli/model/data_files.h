// SPDX-License-Identifier: Apache-2.0
// Finds files that come with Tilelace (models/, machines/) by their names.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tilelace::model {

/// Paths at which a folder such as "models" may be, best first. The folder may be in `data`
/// (TILELACE_DATA), beside the program `command`, in a folder above it, in the sources that the
/// program was built from, or in the install prefix of that build.
std::vector<std::filesystem::path> data_places(const std::string& folder,
                                               const std::filesystem::path& command,
                                               const std::optional<std::string>& data);

/// Names (stems) of the JSON files in all places of a folder ("models"), sorted, no name twice.
std::vector<std::string> known_files(const std::string& folder);

/// For error texts: the names as "one of a, b" or, if there are no files, the places searched.
std::string known_names(const std::string& folder);

/// The file in the folder whose stem is this name, if there is one.
std::optional<std::filesystem::path> known_file(const std::string& folder, const std::string& name);

}  // namespace tilelace::model
