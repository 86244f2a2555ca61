// SPDX-License-Identifier: Apache-2.0
// Prints notes to the user that are not errors, each as a line on standard error.
#pragma once
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace tilelace {

inline void say(const std::string& text) {
  const std::string line = "tilelace: " + text + "\n";
  std::fputs(line.c_str(), stderr);  // one write, so that lines of several ranks do not mix
}

/// As `say`, but a process prints each text only once.
inline void say_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::scoped_lock lock(mutex);
  if (said.insert(text).second) say(text);
}

}  // namespace tilelace
