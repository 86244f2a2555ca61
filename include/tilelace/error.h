// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tilelace {

/// What went wrong: a wrong argument (usage), the machine (system), another rank that died or
/// gave up (peer), or a wait that reached its bound (timeout).
enum class ErrorKind : std::uint8_t { usage = 1, system = 2, peer = 3, timeout = 4 };

constexpr std::string_view name_of(ErrorKind k) {
  switch (k) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::system: return "system";
    case ErrorKind::peer: return "peer";
    case ErrorKind::timeout: return "timeout";
  }
  return "?";
}

/// The one exception of the library. Its text reads `op: what, got, expected`.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace tilelace
