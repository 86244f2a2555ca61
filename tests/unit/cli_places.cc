// SPDX-License-Identifier: Apache-2.0
#include "cli_places.h"

namespace tilelace {

const char* const kCommand = TILELACE_COMMAND;
const char* const kFakeNvml = TILELACE_FAKE_NVML;

}  // namespace tilelace
