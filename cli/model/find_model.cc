// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <set>

#include "core/check.h"
#include "model/config.h"

namespace tilelace::model {
namespace {

namespace fs = std::filesystem;

/// Where configs may lie, best first: beside this command when it is installed, in the source tree
/// it was built from, and in the prefix it was configured for.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(exe.parent_path().parent_path() / "share/tilelace/models");
  folders.emplace_back(TILELACE_SOURCE_MODELS);
  // A build tree that was moved together with its sources: build/<preset>/bin/tilelace.
  if (!error)
    folders.push_back(exe.parent_path().parent_path().parent_path().parent_path() / "models");
  folders.emplace_back(TILELACE_INSTALL_MODELS);
  return folders;
}

bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

}  // namespace

std::vector<std::string> known_models() {
  std::set<std::string> names;
  for (const auto& folder : model_folders()) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".json") names.insert(it->path().stem().string());
  }
  return {names.begin(), names.end()};
}

fs::path find_model(const std::string& name_or_path) {
  std::error_code error;
  if (is_plain(name_or_path))
    for (const auto& folder : model_folders())
      if (fs::path file = folder / (name_or_path + ".json"); fs::is_regular_file(file, error))
        return file;
  fs::path path(name_or_path);
  if (fs::is_directory(path, error)) {
    fs::path file = path / "config.json";
    require(fs::exists(file, error), "model: {}, got a folder without config.json, expected one",
            name_or_path);
    return file;
  }
  require(!name_or_path.empty() && fs::exists(path, error),
          "model: name, got \"{}\", expected one of {}, a config.json, or a folder with one",
          name_or_path, fmt::join(known_models(), ", "));
  return path;
}

}  // namespace tilelace::model
