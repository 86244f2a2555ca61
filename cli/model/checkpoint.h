// SPDX-License-Identifier: Apache-2.0
// A model's weights in Hugging Face's layout: one .safetensors file, or several with an index.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"

namespace tilelace::model {

/// The checkpoint in a folder: model.safetensors, else model.safetensors.index.json, else none.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder);

class Checkpoint {
 public:
  /// `path`: a .safetensors file, an index (.json), or a folder that holds either. The constructor
  /// checks every file, so that later look-ups fail only for names that do not exist.
  explicit Checkpoint(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool contains(std::string_view name) const { return where_.contains(name); }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const TensorInfo& info(std::string_view name) const { return at(name).info(name); }
  [[nodiscard]] TensorView tensor(std::string_view name) const { return at(name).tensor(name); }

 private:
  void open_index();
  [[nodiscard]] const Safetensors& at(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<Safetensors> files_;
  std::map<std::string, std::size_t, std::less<>> where_;  ///< tensor's name -> index into files_
};

}  // namespace tilelace::model
