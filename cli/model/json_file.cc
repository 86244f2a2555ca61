// SPDX-License-Identifier: Apache-2.0
#include "model/json_file.h"

#include "core/check.h"
#include "core/read_text.h"

namespace tilelace::model {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxShown = 60;

std::string cut(std::string text) {
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

std::string dumped(const nlohmann::json& value) {
  return cut(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace

nlohmann::json parse_object(std::string_view what, const std::filesystem::path& file,
                            std::string_view text) {
  const auto limit = nested_at_most(kMaxDepth, fmt::format("{}: {} has JSON", what, file.string()));
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text.begin(), text.end(), limit);
  } catch (const nlohmann::json::parse_error& e) {
    raise(ErrorKind::usage, "{}: {}, got a JSON syntax error at byte {}, expected a JSON object",
          what, file.string(), e.byte);
  } catch (const nlohmann::json::exception&) {
    raise(ErrorKind::usage, "{}: {} has a number out of range", what, file.string());
  }
  require(value.is_object(), "{}: {}, got {}, expected a JSON object", what, file.string(),
          shown(&value));
  return value;
}

std::string shown(const nlohmann::json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list";
  return dumped(*value);
}

std::string shown_whole(const nlohmann::json* value) {
  return value != nullptr && value->is_array() ? dumped(*value) : shown(value);
}

std::string utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string printable(std::string_view name) {
  std::string text = cut(std::string(name.substr(0, kMaxShown + 1)));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace tilelace::model
