// SPDX-License-Identifier: Apache-2.0
// Parses lists, numbers and words that users write. Every error names `what`. Header only.
#pragma once
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"

namespace tilelace {

/// The largest number of rows that a text may give.
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;

/// Splits a text at commas. Errors: usage (an empty part).
inline std::vector<std::string> split_list(std::string_view what, std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    require(comma > at, "{}: \"{}\" has an empty part", what, text);
    parts.emplace_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

/// Splits "path=fused,blocks=2" into pairs, in order. Errors: usage.
inline std::vector<std::pair<std::string, std::string>> split_pairs(std::string_view what,
                                                                    std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (text.empty()) return pairs;
  for (const std::string& part : split_list(what, text)) {
    const std::size_t equal = part.find('=');
    require(equal != std::string::npos, "{}: got \"{}\", expected KEY=VALUE", what, part);
    pairs.emplace_back(part.substr(0, equal), part.substr(equal + 1));
  }
  return pairs;
}

/// Parses a whole number from `least` to `most`. Errors: usage.
inline std::int64_t parse_number(std::string_view what, std::string_view text, std::int64_t least,
                                 std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  require(whole && value >= least && value <= most,
          "{}: got \"{}\", expected a whole number from {} to {}", what, text, least, most);
  return value;
}

/// Pairs of a word and the value that the word stands for.
template <class T>
using Words = std::vector<std::pair<std::string_view, T>>;

/// Makes Words from a table. Takes each row's name and the member that `value` points to.
template <class Rows, class Row, class T>
Words<T> words_of_rows(const Rows& rows, T Row::*value) {
  Words<T> words;
  for (const Row& row : rows) words.emplace_back(row.name, row.*value);
  return words;
}

/// The value of the word that equals the text. Errors: usage (there is no such word).
template <class T>
T parse_word(std::string_view what, std::string_view text, const Words<T>& words) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : words) {
    if (name == text) return value;
    names.push_back(name);
  }
  raise(ErrorKind::usage, "{}: got \"{}\", expected {}", what, text, fmt::join(names, ", "));
}

}  // namespace tilelace
