// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/check.h"
#include "model/json_file.h"

namespace tilelace::model {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::uint64_t kMaxHeader = std::uint64_t{100} << 20;
constexpr std::uint64_t kLengthBytes = 8;

struct Mapped {
  std::shared_ptr<const std::byte> bytes;
  std::uint64_t size = 0;
};

Mapped map_file(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st {};
  void* address = MAP_FAILED;
  int error = errno;
  bool regular = true;
  if (fd >= 0 && ::fstat(fd, &st) == 0) {
    regular = S_ISREG(st.st_mode);
    if (regular && st.st_size > 0)
      address =
          ::mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    error = errno;
  }
  if (fd >= 0) ::close(fd);
  require(regular, "safetensors: {}, got a {}, expected a regular file", file.string(),
          S_ISDIR(st.st_mode) ? "folder" : "special file");
  require(fd < 0 || st.st_size > 0, "safetensors: {} is empty", file.string());
  require(address != MAP_FAILED, "safetensors: cannot read {}: {}", file.string(),
          std::generic_category().message(error));
  const auto size = static_cast<std::size_t>(st.st_size);
  return {{static_cast<const std::byte*>(address),
           [size](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); }},
          size};
}

}  // namespace

Safetensors::Safetensors(const std::filesystem::path& file) : file_(file) {
  const Mapped map = map_file(file);
  require(map.size >= kLengthBytes, "safetensors: {}, got {} bytes, expected at least {}",
          file.string(), map.size, kLengthBytes);
  std::uint64_t header = 0;
  std::memcpy(&header, map.bytes.get(), kLengthBytes);
  const std::uint64_t limit = std::min(kMaxHeader, map.size - kLengthBytes);
  require(header <= limit, "safetensors: {}: header, got a length of {}, expected at most {}",
          file.string(), header, limit);
  mapping_ = map.bytes;
  data_ = map.bytes.get() + kLengthBytes + header;
  const auto* text = reinterpret_cast<const char*>(map.bytes.get() + kLengthBytes);
  tensors_ = parse_safetensors_header(file, {text, header}, map.size - kLengthBytes - header);
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const auto& entry : tensors_) names.push_back(entry.first);
  return names;
}

const TensorInfo& Safetensors::info(std::string_view name) const {
  const auto it = tensors_.find(name);
  require(it != tensors_.end(), "safetensors: {}: there is no tensor {}", file_.string(),
          printable(name));
  return it->second;
}

TensorView Safetensors::tensor(std::string_view name) const {
  const TensorInfo& t = info(name);
  require(t.type.has_value(), "safetensors: {}: tensor {}, got {}, expected BF16, F16 or F32",
          file_.string(), printable(name), t.dtype);
  require(t.shape.size() <= 2, "safetensors: {}: tensor {}, got shape [{}], expected a matrix",
          file_.string(), printable(name), fmt::join(t.shape, ", "));
  const std::int64_t cols = t.shape.empty() ? 1 : t.shape.back();
  const std::int64_t rows = t.shape.size() == 2 ? t.shape.front() : 1;
  return dense(const_cast<std::byte*>(data_ + t.begin), *t.type, rows, cols);
}

}  // namespace tilelace::model
