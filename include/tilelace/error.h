// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tilelace {

/// What went wrong. `usage`: a wrong argument, or ranks that disagree. `system`: memory, a file, a
/// thread or a device. `peer`: another rank died or gave up. `timeout`: a wait reached its bound.
enum class ErrorKind : std::uint8_t { usage = 1, system = 2, peer = 3, timeout = 4 };

/// "usage", "system", "peer" or "timeout"; "?" for another value.
constexpr std::string_view name_of(ErrorKind k) {
  switch (k) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::system: return "system";
    case ErrorKind::peer: return "peer";
    case ErrorKind::timeout: return "timeout";
  }
  return "?";
}

/// The library's only exception class. The text says what happened, in which op, and what to do.
class Error : public std::runtime_error {
 public:
  /// An error of this kind with this text. Errors: std::bad_alloc.
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  /// The kind of the error; what() returns the text.
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace tilelace
