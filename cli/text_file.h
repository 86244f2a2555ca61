// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tilelace::cli {

/// Throws a usage error if write_text cannot write to the path. Leaves no new or changed file.
void require_writable(const std::string& option, const std::string& path);
/// Writes the text to a new file in the same folder, then renames the new file to `path`. An old
/// file is replaced as a whole or stays. Errors: usage, if the file cannot be written.
void write_text(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tilelace::cli
