// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <algorithm>

#include "core/check.h"
#include "core/read_text.h"
#include "model/json_file.h"

namespace tilelace::model {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIndex = std::size_t{64} << 20;

/// An index may name files of its own folder only; control characters would reach error texts.
bool is_plain_file(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string::npos &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

std::optional<fs::path> find_checkpoint(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(folder / name, error)) return folder / name;
  return std::nullopt;
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const auto found = find_checkpoint(path);
    require(
        found.has_value(),
        "safetensors: the folder {} has neither model.safetensors nor model.safetensors.index.json",
        path.string());
    path_ = *found;
  }
  if (path_.extension() == ".json") {
    open_index();
    return;
  }
  files_.emplace_back(path_);
  for (auto& name : files_.front().names()) where_.emplace(std::move(name), 0);
}

void Checkpoint::open_index() {
  const auto index = parse_object("safetensors", path_, read_text("safetensors", path_, kMaxIndex));
  const auto map = index.find("weight_map");
  require(map != index.end() && map->is_object(),
          "safetensors: {}: weight_map, got {}, expected an object from tensor names to file names",
          path_.string(), shown(map == index.end() ? nullptr : &*map));
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, file] : map->items()) {
    require(file.is_string() && is_plain_file(file.get_ref<const std::string&>()),
            "safetensors: {}: tensor {}, got file {}, expected the plain name of a file beside the "
            "index",
            path_.string(), printable(tensor), shown(&file));
    const auto& name = file.get_ref<const std::string&>();
    const auto [it, fresh] = opened.emplace(name, files_.size());
    if (fresh) files_.emplace_back(path_.parent_path() / name);
    require(files_[it->second].contains(tensor),
            "safetensors: {}: tensor {} is not in {}, the file that the index names for it",
            path_.string(), printable(tensor), printable(name));
    where_.emplace(tensor, it->second);
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& entry : where_) names.push_back(entry.first);
  return names;
}

const Safetensors& Checkpoint::at(std::string_view name) const {
  const auto it = where_.find(name);
  require(it != where_.end(), "safetensors: {}: there is no tensor {}", path_.string(),
          printable(name));
  return files_[it->second];
}

}  // namespace tilelace::model
