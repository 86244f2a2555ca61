// SPDX-License-Identifier: Apache-2.0
#include "places.h"

namespace tilelace {

const char* const kSourceTree = TILELACE_SOURCE_TREE;

}  // namespace tilelace
