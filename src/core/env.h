// SPDX-License-Identifier: Apache-2.0
// The only file that reads environment variables. It returns texts as they are, for callers to
// check. An invalid switch or number counts as not set.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilelace::env {

/// TILELACE_FIRST_EPOCH: the number of the first call (to test the wrap at 2^32). Default 0.
inline std::uint32_t first_epoch() {
  const char* text = std::getenv("TILELACE_FIRST_EPOCH");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  return *end == '\0' && value <= 0xffffffffULL ? static_cast<std::uint32_t>(value) : 0;
}

/// TILELACE_DATA: a folder with machines/, models/ and tuning/, searched before all others.
inline std::optional<std::string> data_folder() {
  const char* text = std::getenv("TILELACE_DATA");
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

/// TILELACE_MULTICAST: "1" allows multicast memory if a program asks for it; empty text if not set.
inline std::string multicast() {
  const char* text = std::getenv("TILELACE_MULTICAST");
  return text == nullptr ? "" : text;
}

/// TILELACE_COMPARE_CALLS: if "1" on all ranks, ranks compare every call byte by byte, on the host,
/// before the call begins. Slow; for tests and for finding where ranks differ.
inline bool compare_calls() {
  const char* text = std::getenv("TILELACE_COMPARE_CALLS");
  return text != nullptr && std::string(text) == "1";
}

/// TILELACE_TUNING: the file of a table of measured plans, for GPU ranks that were given no table;
/// "off": no table, not even an installed one.
inline std::optional<std::string> tuning_file() {
  const char* text = std::getenv("TILELACE_TUNING");
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

/// COLUMNS: width of the command's output; a value that is not a positive number counts as not set.
inline std::optional<std::string> columns() {
  const char* text = std::getenv("COLUMNS");
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

/// A variable that a launcher sets (comm/launch_env.h), or one of NCCL's.
inline std::optional<std::string> launch_variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

/// The value of HOME. Empty if it is not set.
inline std::string home() {
  const char* text = std::getenv("HOME");
  return text == nullptr ? "" : text;
}

/// Names and values of all variables whose names begin with one of `beginnings`, sorted by name.
inline std::vector<std::pair<std::string, std::string>> variables(
    std::initializer_list<std::string_view> beginnings) {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equal = text.find('=');
    const bool asked = std::any_of(beginnings.begin(), beginnings.end(),
                                   [&](auto b) { return text.substr(0, equal).starts_with(b); });
    if (asked && equal != std::string_view::npos)
      found.emplace_back(text.substr(0, equal), text.substr(equal + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tilelace::env
