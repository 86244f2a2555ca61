// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of cli/model: a temporary folder, handwritten files, error texts.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "places.h"
#include "tilelace/error.h"

namespace tilelace::model {

inline const std::vector<std::string> kFamilies = {"llama", "mistral",  "qwen2", "qwen3",
                                                   "gpt2",  "gpt_neox", "bert"};

inline std::filesystem::path tiny_config(const std::string& family) {
  return in_source_tree("tests/data/model/tiny_" + family + ".json");
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tilelace_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

  /// The text of the usage error that `call` throws, with the name of this folder replaced by DIR.
  template <class Call>
  std::string error_of(Call call) const {
    try {
      call();
    } catch (const Error& e) {
      std::string text = e.what();
      if (e.kind() != ErrorKind::usage) return "not a usage error: " + text;
      for (std::size_t at; (at = text.find(path_.string())) != std::string::npos;)
        text.replace(at, path_.string().size(), "DIR");
      return text;
    }
    return "no error";
  }

 private:
  std::filesystem::path path_;
};

/// The bytes of a .safetensors file with this header (JSON text) and this data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

}  // namespace tilelace::model
