// SPDX-License-Identifier: Apache-2.0
#include "tilelace/version.h"

namespace tilelace {

int version() noexcept { return TILELACE_VERSION; }

}  // namespace tilelace
