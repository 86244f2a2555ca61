// SPDX-License-Identifier: Apache-2.0
// Guesses the word that a misspelt one was meant to be.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

/// The entry of `words` with the fewest edits to `word` (insert, delete or replace a letter, swap
/// neighbours); none if more than one edit per three letters is needed (one is always allowed).
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tilelace::cli
