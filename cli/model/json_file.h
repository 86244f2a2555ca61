// SPDX-License-Identifier: Apache-2.0
// Parses JSON files from outside, without trusting them.
#pragma once
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tilelace::model {

/// Parses `text`, the content of `file`, as a JSON object that is nested at most 64 levels deep.
/// Error texts begin with `what` ("config").
nlohmann::json parse_object(std::string_view what, const std::filesystem::path& file,
                            std::string_view text);

/// A JSON value as error texts show it: short, ASCII, on one line. Null pointer: an absent value.
std::string shown(const nlohmann::json* value);
/// Like shown(), but shows the elements of a list. shown() only writes "a list".
std::string shown_whole(const nlohmann::json* value);

/// The text with invalid UTF-8 replaced, since file names may contain any bytes.
std::string utf8(const std::string& text);

/// A name from a file as shown in an error text: short, without control characters.
std::string printable(std::string_view name);

}  // namespace tilelace::model
