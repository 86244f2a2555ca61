// SPDX-License-Identifier: Apache-2.0
// Values of records. A value that was not measured is null.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tilelace::cli {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace tilelace::cli
