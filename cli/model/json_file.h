// SPDX-License-Identifier: Apache-2.0
// Files that somebody else wrote, parsed without trust.
#pragma once
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tilelace::model {

/// The JSON object in `text` (core/read_text.h), nested at most 64 deep. `what` starts the error
/// texts
/// ("config").
nlohmann::json parse_object(std::string_view what, const std::filesystem::path& file,
                            std::string_view text);

/// A JSON value (null pointer: absent) for an error text: short, ASCII, on one line.
std::string shown(const nlohmann::json* value);

/// The text with what is no UTF-8 replaced: files' names may be any bytes.
std::string utf8(const std::string& text);

/// A name from a file for an error text: short, without control characters.
std::string printable(std::string_view name);

}  // namespace tilelace::model
