// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tilelace::cli {

/// Error: usage, when write_text could not write there. What it holds stays, and nothing new does.
void require_writable(const std::string& option, const std::string& path);
/// The whole file or what was there before: it is written beside its place, then put there.
/// Errors: usage, when the file cannot be written whole.
void write_text(const std::string& option, const std::string& path, const std::string& text);

}  // namespace tilelace::cli
