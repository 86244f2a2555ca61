// SPDX-License-Identifier: Apache-2.0
// Reads fields from the JSON file of a table of measured plans.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "plan/base/problem.h"

namespace tilelace::plan {

/// A JSON object in the file. Every error says where in the file the object is.
class TableFields {
 public:
  TableFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    require(object.is_object(), "{}: got {}, expected an object", where_, object.type_name());
  }
  /// The value of a field that must exist.
  [[nodiscard]] const nlohmann::json& at(const char* name) const {
    const auto found = object_.find(name);
    require(found != object_.end(), "{}: {} is missing", where_, name);
    return *found;
  }
  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }
  [[nodiscard]] std::string text(const char* name) const {
    const nlohmann::json& value = at(name);
    require(value.is_string() && value.get_ref<const std::string&>().size() <= 4096,
            "{}: {}: got {}, expected a text of up to 4096 bytes", where_, name, value.type_name());
    return value.get<std::string>();
  }
  [[nodiscard]] std::int64_t whole(const char* name) const { return whole(at(name), name); }
  [[nodiscard]] double time(const char* name) const {
    const nlohmann::json& value = at(name);
    require(value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1e12,
            "{}: {}: got {}, expected microseconds, more than 0", where_, name, value.dump());
    return value.get<double>();
  }
  /// A rate in GB/s; 0 if the field is absent.
  [[nodiscard]] double rate_or_none(const char* name) const {
    if (!has(name)) return 0;
    const nlohmann::json& value = at(name);
    require(value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1e9,
            "{}: {}: got {}, expected GB/s, more than 0", where_, name, value.dump().substr(0, 40));
    return value.get<double>();
  }
  [[nodiscard]] std::vector<std::int64_t> list(const char* name) const {
    const nlohmann::json& value = at(name);
    require(value.is_array() && !value.empty() && value.size() <= 64,
            "{}: {}: got {}, expected a list of 1 to 64 numbers", where_, name, value.type_name());
    std::vector<std::int64_t> all;
    for (const nlohmann::json& element : value) all.push_back(whole(element, name));
    return all;
  }
  [[nodiscard]] bool flag(const char* name) const {
    if (!has(name)) return false;
    require(at(name).is_boolean(), "{}: {}: got {}, expected true or false", where_, name,
            at(name).type_name());
    return at(name).get<bool>();
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  [[nodiscard]] std::int64_t whole(const nlohmann::json& value, const char* name) const {
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{kMaxExtent}) &&
        value.get<std::int64_t>() >= 1 && value.get<std::int64_t>() <= kMaxExtent;
    require(fits, "{}: {}: got {}, expected a whole number from 1 to {}", where_, name,
            value.dump().substr(0, 40), kMaxExtent);
    return value.get<std::int64_t>();
  }

  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace tilelace::plan
