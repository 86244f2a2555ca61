// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tilelace::cli {

/// Error: usage, if write_text could not write to the path. Leaves a file there as it is and makes
/// none.
void require_writable(const std::string& option, const std::string& path);
/// Writes the file whole or leaves the old one: the text goes to a new file beside it, which then
/// replaces it. Errors: usage, if the file cannot be written.
void write_text(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tilelace::cli
