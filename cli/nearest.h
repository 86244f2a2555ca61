// SPDX-License-Identifier: Apache-2.0
// Guesses the word that a misspelt one was meant to be.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

/// The word that is the fewest changes of letters away (insert, delete, replace, swap neighbours);
/// none if that is more than one change in three letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tilelace::cli
