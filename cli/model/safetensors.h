// SPDX-License-Identifier: Apache-2.0
// Reads .safetensors files. They are mapped read-only and checked in full before a byte is used.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilelace/dtype.h"
#include "tilelace/tensor.h"

namespace tilelace::model {

struct TensorInfo {
  std::string dtype;          ///< as the file spells it
  std::optional<DType> type;  ///< `dtype` as a DType; absent if Tilelace cannot compute with it
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< begin, end: offsets, in bytes, in the data after the header
  std::uint64_t end = 0;
};

using TensorMap = std::map<std::string, TensorInfo, std::less<>>;

/// The tensors that a header (JSON text) describes, over `data_bytes` bytes of data.
/// Errors: usage, naming file and tensor, if a tensor is not {dtype, shape, data_offsets}, if a key
/// appears twice, if sizes disagree, or if the tensors' data overlap or leave holes.
TensorMap parse_safetensors_header(const std::filesystem::path& file, std::string_view header,
                                   std::uint64_t data_bytes);

/// One mapped file; copies share the mapping. A file that is cut short while it is mapped kills the
/// process (SIGBUS), as with every mapping.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] bool contains(std::string_view name) const { return tensors_.contains(name); }
  [[nodiscard]] std::vector<std::string> names() const;
  /// Errors: usage, if there is no such tensor.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const;
  /// The tensor as a matrix. A tensor with 0 or 1 dimensions becomes one row. Its type must be one
  /// that Tilelace computes with. The memory is read-only and may be unaligned, so copy it before
  /// use. The view is valid as long as *this or a copy of *this lives.
  [[nodiscard]] TensorView tensor(std::string_view name) const;

 private:
  std::filesystem::path file_;
  std::shared_ptr<const std::byte> mapping_;
  const std::byte* data_ = nullptr;
  TensorMap tensors_;
};

}  // namespace tilelace::model
