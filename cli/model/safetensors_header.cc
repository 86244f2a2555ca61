// SPDX-License-Identifier: Apache-2.0
// The header's grammar, as a SAX handler: a hostile header is refused at its first wrong token,
// before a tree is built of it.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "core/check.h"
#include "model/json_file.h"
#include "model/safetensors.h"

namespace tilelace::model {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDimensions = 16;

/// Of the types that no call takes.
constexpr std::array<std::pair<std::string_view, unsigned>, 17> kBits = {{
    {"F64", 64},
    {"BOOL", 8},
    {"U8", 8},
    {"I8", 8},
    {"U16", 16},
    {"I16", 16},
    {"U32", 32},
    {"I32", 32},
    {"U64", 64},
    {"I64", 64},
    {"C64", 64},
    {"F8_E5M2", 8},
    {"F4", 4},
    {"F8_E4M3", 8},
    {"F8_E8M0", 8},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
}};

std::optional<DType> usable(std::string_view dtype) {
  return dtype_named(dtype, &DTypeRow::file_name);
}

/// Of an element; 0: the format has no such type.
std::uint64_t bits_of(std::string_view dtype) {
  if (const auto ours = usable(dtype)) return 8 * size_of(*ours);
  const auto* entry =
      std::find_if(kBits.begin(), kBits.end(), [&](const auto& e) { return e.first == dtype; });
  return entry == kBits.end() ? 0 : entry->second;
}

class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  HeaderReader(std::string file, TensorMap& tensors) : file_(std::move(file)), tensors_(tensors) {}

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(std::int64_t v) override { return value(fmt::format("{}", v)); }
  bool number_float(double, const std::string& text) override { return value(printable(text)); }
  bool binary(binary_t&) override { return value("binary"); }
  bool number_unsigned(std::uint64_t v) override;
  bool string(std::string& text) override;
  bool start_object(std::size_t) override;
  bool key(std::string& text) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t byte, const std::string&, const json::exception&) override {
    fail(fmt::format("a JSON syntax error at byte {}", byte), "a JSON object");
  }

 private:
  enum class At {
    start,
    top,
    entry,
    dtype,
    shape_key,
    shape,
    offsets_key,
    offsets,
    metadata,
    note
  };

  [[noreturn]] void fail(std::string_view got, std::string_view expected) const {
    raise(ErrorKind::usage, "safetensors: {}: {}, got {}, expected {}", file_,
          name_.empty() ? std::string("header") : "tensor " + printable(name_), got, expected);
  }

  [[nodiscard]] std::string_view expected() const;
  /// Any value that has no place of its own in the grammar.
  bool value(std::string_view got) const { fail(got, expected()); }

  std::string file_;
  TensorMap& tensors_;
  At at_ = At::start;
  std::string name_;  ///< the tensor being read
  TensorInfo info_;
  std::vector<std::uint64_t> offsets_;
  bool has_shape_ = false;
  bool has_metadata_ = false;
  std::set<std::string> notes_;
};

std::string_view HeaderReader::expected() const {
  switch (at_) {
    case At::start: return "a JSON object";
    case At::top: return "an object of dtype, shape and data_offsets";
    case At::entry: return "a field";
    case At::dtype: return "a dtype's name";
    case At::shape_key: return "shape as a list";
    case At::shape: return "shape of whole numbers from 0 to 2^63 - 1";
    case At::offsets_key: return "data_offsets as a list";
    case At::offsets: return "data_offsets of two whole numbers";
    case At::metadata: return "an object of strings";
    case At::note: return "a string";
  }
  return "?";
}

bool HeaderReader::number_unsigned(std::uint64_t v) {
  if (at_ == At::shape && v <= std::numeric_limits<std::int64_t>::max()) {
    if (info_.shape.size() == kMaxDimensions)
      fail("more dimensions", fmt::format("at most {}", kMaxDimensions));
    info_.shape.push_back(static_cast<std::int64_t>(v));
  } else if (at_ == At::offsets && offsets_.size() < 2) {
    offsets_.push_back(v);
  } else {
    value(fmt::format("{}", v));
  }
  return true;
}

bool HeaderReader::string(std::string& text) {
  if (at_ == At::dtype) {
    info_.dtype = text;
    info_.type = usable(text);
    at_ = At::entry;
  } else if (at_ == At::note) {
    at_ = At::metadata;
  } else {
    value("\"" + printable(text) + "\"");
  }
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (at_ == At::start) {
    at_ = At::top;
  } else if (at_ == At::top && name_ == "__metadata__") {
    at_ = At::metadata;
  } else if (at_ == At::top) {
    at_ = At::entry;
    info_ = {};
    offsets_.clear();
    has_shape_ = false;
  } else {
    value("an object");
  }
  return true;
}

bool HeaderReader::key(std::string& text) {
  if (at_ == At::top) {
    name_ = text;
    if (name_ == "__metadata__" ? std::exchange(has_metadata_, true) : tensors_.contains(name_))
      fail("this name twice", "each name once");
  } else if (at_ == At::metadata) {
    if (!notes_.insert(text).second) fail("\"" + printable(text) + "\" twice", "no key twice");
    at_ = At::note;
  } else if (text == "dtype" && info_.dtype.empty()) {
    at_ = At::dtype;
  } else if (text == "shape" && !has_shape_) {
    at_ = At::shape_key;
    has_shape_ = true;
  } else if (text == "data_offsets" && offsets_.empty()) {
    at_ = At::offsets_key;
  } else {
    fail("field \"" + printable(text) + "\"", "dtype, shape and data_offsets, each once");
  }
  return true;
}

bool HeaderReader::end_object() {
  if (at_ == At::entry) {
    if (info_.dtype.empty() || !has_shape_ || offsets_.empty())
      fail("a field missing", "dtype, shape and data_offsets");
    info_.begin = offsets_[0];
    info_.end = offsets_[1];
    tensors_.emplace(name_, std::move(info_));
  }
  at_ = At::top;
  name_.clear();
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (at_ == At::shape_key)
    at_ = At::shape;
  else if (at_ == At::offsets_key)
    at_ = At::offsets;
  else
    value("a list");
  return true;
}

bool HeaderReader::end_array() {
  if (at_ == At::offsets && offsets_.size() != 2) fail("fewer than two", expected());
  at_ = At::entry;
  return true;
}

/// Bytes that the shape takes; the sizes' product is where a hostile header would wrap.
std::uint64_t bytes_of(const TensorInfo& info, const std::string& where) {
  std::uint64_t bits = bits_of(info.dtype);
  require(bits > 0, "{}, got dtype \"{}\", expected one that the format knows", where,
          printable(info.dtype));
  for (const std::int64_t extent : info.shape)
    require(!__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits),
            "{}, got a shape of over 2^64 bits, expected a tensor that fits the file", where);
  require(bits % 8 == 0, "{}, got {} bits, expected whole bytes", where, bits);
  return bits / 8;
}

void check_layout(const std::string& file, const TensorMap& tensors, std::uint64_t data_bytes) {
  std::vector<const TensorMap::value_type*> order;
  for (const auto& entry : tensors) {
    const auto& [name, info] = entry;
    const auto where = fmt::format("safetensors: {}: tensor {}", file, printable(name));
    require(info.begin <= info.end && info.end <= data_bytes,
            "{}, got data_offsets [{}, {}], expected ascending offsets of at most {}", where,
            info.begin, info.end, data_bytes);
    const std::uint64_t bytes = bytes_of(info, where);
    require(info.end - info.begin == bytes, "{}, got {} bytes of data, expected {} for its shape",
            where, info.end - info.begin, bytes);
    order.push_back(&entry);
  }
  const auto span = [](const auto* e) { return std::pair(e->second.begin, e->second.end); };
  std::sort(order.begin(), order.end(),
            [&](const auto* a, const auto* b) { return span(a) < span(b); });
  std::uint64_t reached = 0;
  for (const auto* entry : order) {
    require(entry->second.begin == reached,
            "safetensors: {}: tensor {}, got data that begins at byte {}, expected byte {}: no "
            "hole, no overlap",
            file, printable(entry->first), entry->second.begin, reached);
    reached = entry->second.end;
  }
  require(reached == data_bytes,
          "safetensors: {}: data, got {} bytes, expected {}, the size of all its tensors", file,
          data_bytes, reached);
}

}  // namespace

TensorMap parse_safetensors_header(const std::filesystem::path& file, std::string_view header,
                                   std::uint64_t data_bytes) {
  TensorMap tensors;
  HeaderReader reader(file.string(), tensors);
  require(header.starts_with('{'),
          "safetensors: {}: header, got a first byte other than '{{', expected a JSON object",
          file.string());
  json::sax_parse(header.begin(), header.end(), &reader);
  check_layout(file.string(), tensors, data_bytes);
  return tensors;
}

}  // namespace tilelace::model
