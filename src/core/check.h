// SPDX-License-Identifier: Apache-2.0
// Raises errors. An error's text says what happened and what to do; for a wrong value the text is
// `op: what: got X, expected Y`.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "tilelace/error.h"

namespace tilelace {

template <class... Args>
[[noreturn]] void raise(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws a usage error with this text unless the condition holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) raise(ErrorKind::usage, text, std::forward<Args>(args)...);
}

}  // namespace tilelace
