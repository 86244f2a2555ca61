// SPDX-License-Identifier: Apache-2.0
#include "model/data_files.h"

#include <fmt/ranges.h>

#include <set>

#include "core/env.h"

namespace tilelace::model {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> places_of(const std::string& folder) {
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/self/exe", error);
  return data_places(folder, error ? fs::path() : exe, env::data_folder());
}

bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

}  // namespace

std::string known_names(const std::string& folder) {
  if (const auto names = known_files(folder); !names.empty())
    return fmt::format("one of {}", fmt::join(names, ", "));
  std::vector<std::string> places;
  for (const auto& place : places_of(folder)) places.push_back(place.string());
  return fmt::format(
      "the name of a file in a folder {} (no such folder at {}: set TILELACE_DATA to the folder "
      "that contains it)",
      folder, fmt::join(places, ", "));
}

std::vector<std::string> known_files(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& place : places_of(folder)) {
    std::error_code error;
    for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".json") names.insert(it->path().stem().string());
  }
  return {names.begin(), names.end()};
}

std::optional<fs::path> known_file(const std::string& folder, const std::string& name) {
  std::error_code error;
  if (!is_plain(name)) return std::nullopt;
  for (const auto& place : places_of(folder))
    if (fs::path file = place / (name + ".json"); fs::is_regular_file(file, error)) return file;
  return std::nullopt;
}

}  // namespace tilelace::model
