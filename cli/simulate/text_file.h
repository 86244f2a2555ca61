// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tilelace::cli {

/// Error: usage, when the file cannot be opened to write. What it holds stays.
void require_writable(const std::string& option, const std::string& path);
/// Errors: usage, when the file cannot be written whole.
void write_text(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tilelace::cli
