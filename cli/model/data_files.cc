// SPDX-License-Identifier: Apache-2.0
#include "model/data_files.h"

#include <set>

namespace tilelace::model {
namespace {

namespace fs = std::filesystem;

/// Where they may lie, best first: beside this command when it is installed, in the source tree it
/// was built from, and in the prefix it was configured for.
std::vector<fs::path> places_of(const std::string& folder) {
  std::vector<fs::path> places;
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.push_back(exe.parent_path().parent_path() / "share/tilelace" / folder);
  places.push_back(fs::path(TILELACE_SOURCE_DATA) / folder);
  // A build tree that was moved together with its sources: build/<preset>/bin/tilelace.
  if (!error)
    places.push_back(exe.parent_path().parent_path().parent_path().parent_path() / folder);
  places.push_back(fs::path(TILELACE_INSTALL_DATA) / folder);
  return places;
}

bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

}  // namespace

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
