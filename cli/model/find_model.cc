// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "model/config.h"
#include "model/data_files.h"
#include "model/experts.h"

namespace tilelace::model {

namespace fs = std::filesystem;

std::vector<std::string> known_models() { return known_files("models"); }

fs::path find_model(const std::string& name_or_path) {
  std::error_code error;
  require(!is_mixture(name_or_path),
          "--model: {} is a mixture of experts: name its ops, ag_moe,moe_rs or moe_ar",
          name_or_path);
  if (const auto file = known_file("models", name_or_path)) return *file;
  fs::path path(name_or_path);
  if (fs::is_directory(path, error)) {
    fs::path file = path / "config.json";
    require(fs::exists(file, error), "--model: the folder {} has no config.json", name_or_path);
    return file;
  }
  require(!name_or_path.empty() && fs::exists(path, error),
          "--model: got \"{}\", expected {}, a config.json, a folder with one, or sizes "
          "(hidden=N,intermediate=N,heads=N)",
          name_or_path, known_names("models"));
  return path;
}

}  // namespace tilelace::model
