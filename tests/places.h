// SPDX-License-Identifier: Apache-2.0
// Where this build's tests find files. Paths stand in sources of their own: on the command line of
// a test they would keep a compiler's cache from finding its objects for another checkout.
#pragma once
#include <string>

namespace tilelace {

extern const char* const kSourceTree;
inline std::string in_source_tree(const std::string& path) {
  return std::string(kSourceTree) + "/" + path;
}

}  // namespace tilelace
