// SPDX-License-Identifier: Apache-2.0
#include "commit.h"

namespace tilelace::cli {

const char* built_commit() { return TILELACE_COMMIT; }

}  // namespace tilelace::cli
