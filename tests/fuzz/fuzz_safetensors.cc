// SPDX-License-Identifier: Apache-2.0
// A .safetensors file: header and data. Every byte that a tensor claims is read.
#include <cstdint>

#include "model/safetensors.h"
#include "untrusted_file.h"

namespace tilelace::model {
namespace {

unsigned sum_of(const void* data, std::uint64_t bytes) {
  unsigned sum = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) sum += static_cast<const std::uint8_t*>(data)[i];
  return sum;
}

void read_all(const std::filesystem::path& path, std::size_t size) {
  const Safetensors file(path);
  for (const std::string& name : file.names()) {
    const TensorInfo& info = file.info(name);
    fuzz::expect(info.begin <= info.end && info.end < size, "data within the file", name);
    if (!info.type || info.shape.size() > 2) continue;
    const TensorView view = file.tensor(name);
    fuzz::expect(static_cast<std::uint64_t>(view.rows * view.cols) * size_of(view.dtype) ==
                     info.end - info.begin,
                 "a shape of as many bytes", name);
    // As an allocation of its own size, in which a read beyond its end is seen.
    const std::string copy(static_cast<const char*>(view.data), info.end - info.begin);
    fuzz::expect(sum_of(copy.data(), copy.size()) == sum_of(view.data, copy.size()),
                 "the same bytes twice", name);
  }
}

}  // namespace
}  // namespace tilelace::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const tilelace::fuzz::UntrustedFile file(bytes, size);
  tilelace::fuzz::read_or_refuse([&] { tilelace::model::read_all(file.path(), size); });
  return 0;
}
