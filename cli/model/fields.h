// SPDX-License-Identifier: Apache-2.0
// Fields of a Hugging Face config.json.
#pragma once
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/read_text.h"
#include "model/json_file.h"
#include "tilelace/dtype.h"

namespace tilelace::model {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;

constexpr auto kDTypeWords = [] {
  std::array<std::pair<std::string_view, DType>, std::size(kDTypes)> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = {kDTypes[i].long_name, kDTypes[i].type};
  return words;
}();

template <class Table, class Get>
std::string listed(const Table& table, Get get) {
  std::vector<std::string_view> words;
  for (const auto& entry : table) words.push_back(get(entry));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// The fields of one config. Every error names the file, the field and the value.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string file)
      : object_(object), file_(std::move(file)) {}

  /// Null if the field is absent or null. Hugging Face writes null for some unset fields.
  [[nodiscard]] const nlohmann::json* find(const char* field) const {
    const auto it = object_.find(field);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  [[noreturn]] void fail(const char* field, std::string_view expected) const {
    raise(ErrorKind::usage, "config: {}: {}, got {}, expected {}", file_, field, shown(find(field)),
          expected);
  }

  [[nodiscard]] int size(const char* field) const {
    const auto* v = find(field);
    const std::int64_t value =
        v != nullptr && v->is_number_integer() && *v <= kMaxSize ? v->get<std::int64_t>() : 0;
    if (value < 1) fail(field, fmt::format("a whole number from 1 to {}", kMaxSize));
    return static_cast<int>(value);
  }

  [[nodiscard]] int size_or(const char* field, int fallback) const {
    return find(field) == nullptr ? fallback : size(field);
  }

  [[nodiscard]] bool flag_or(const char* field, bool fallback) const {
    const auto* v = find(field);
    if (v == nullptr) return fallback;
    if (!v->is_boolean()) fail(field, "true or false");
    return v->get<bool>();
  }

  template <class Table>
  [[nodiscard]] auto word(const char* field, std::string_view fallback, const Table& table) const {
    const auto* v = find(field);
    std::string_view text = fallback;
    if (v != nullptr && v->is_string()) text = v->get_ref<const std::string&>();
    if (v == nullptr || v->is_string())
      for (const auto& [name, value] : table)
        if (name == text) return value;
    fail(field, "one of " + listed(table, [](const auto& e) { return e.first; }));
  }

  /// The field `dtype` or, in older files, `torch_dtype`; fp32 if both are absent.
  [[nodiscard]] DType dtype() const {
    return word(find("dtype") != nullptr ? "dtype" : "torch_dtype", row_of(kAccumulator).long_name,
                kDTypeWords);
  }

 private:
  const nlohmann::json& object_;
  std::string file_;
};

/// The file's stem, or its folder's name for a config.json.
inline std::string name_from(const std::filesystem::path& file) {
  if (file.filename() != "config.json") return utf8(file.stem().string());
  std::error_code ignored;
  const auto folder = std::filesystem::absolute(file, ignored).lexically_normal().parent_path();
  return utf8(folder.filename().string());
}

}  // namespace tilelace::model
