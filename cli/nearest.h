// SPDX-License-Identifier: Apache-2.0
// What a misspelt word may have meant.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

/// The word that the fewest changes of a letter (insert, delete, replace, swap neighbours) lead to;
/// none where that takes more than one change in three letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tilelace::cli
