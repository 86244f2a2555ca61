// SPDX-License-Identifier: Apache-2.0
// Guesses the word that a misspelt one was meant to be.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilelace::cli {

/// The entry of `words` that is the fewest edits away from `word`. An edit inserts, deletes or
/// replaces a letter, or swaps neighbours. Absent if all are over max(1, letters / 3) edits away.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace tilelace::cli
