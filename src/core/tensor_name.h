// SPDX-License-Identifier: Apache-2.0
// A tensor's name in error texts. The name is formatted only if there is an error, so that calls
// without errors pay nothing.
#pragma once
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tilelace {

/// "a", or "weight 0" if there are several weights. The string must outlive this object.
struct TensorName {
  constexpr TensorName(const char* text) : kind(text) {}  // NOLINT: a text converts to a name
  constexpr TensorName(std::string_view text, std::size_t which) : kind(text), number(which) {}

  static constexpr std::size_t kOnly = static_cast<std::size_t>(-1);

  std::string_view kind;
  std::size_t number = kOnly;
};

}  // namespace tilelace

template <>
struct fmt::formatter<tilelace::TensorName> {
  static constexpr auto parse(format_parse_context& c) { return c.begin(); }
  template <class Context>
  auto format(const tilelace::TensorName& n, Context& c) const {
    std::string text(n.kind);  // no format_to: a libfmt built by GCC lacks clang's symbol for it
    if (n.number != tilelace::TensorName::kOnly) text += ' ' + std::to_string(n.number);
    return std::copy(text.begin(), text.end(), c.out());
  }
};
