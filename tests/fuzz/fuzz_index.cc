// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json beside two files that it may name.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "model/checkpoint.h"
#include "untrusted_file.h"

namespace tilelace::model {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fuzz_index_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
    for (const char name : {'a', 'b'})
      write(std::string(1, name) + ".safetensors", one_tensor(name));
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

 private:
  static std::string one_tensor(char name) {
    const std::string header =
        std::string("{\"") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + header + "data";
  }

  std::filesystem::path path_;
};

void read_index(const std::filesystem::path& file) {
  const Checkpoint checkpoint(file);
  for (const std::string& name : checkpoint.names()) {
    fuzz::expect(name == "a" || name == "b", "a tensor that a file has", name);
    fuzz::expect(checkpoint.tensor(name).cols == 1, "one element", name);
  }
}

}  // namespace
}  // namespace tilelace::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const tilelace::model::Folder folder;
  const auto file =
      folder.write("model.safetensors.index.json", {reinterpret_cast<const char*>(bytes), size});
  tilelace::fuzz::read_or_refuse([&] { tilelace::model::read_index(file); });
  return 0;
}
