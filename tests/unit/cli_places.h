// SPDX-License-Identifier: Apache-2.0
// The built programs that tests of the command run; why in a source of their own: tests/places.h.
#pragma once

namespace tilelace {

extern const char* const kCommand;   ///< the program tilelace
extern const char* const kFakeNvml;  ///< the folder of a library in place of NVIDIA's

}  // namespace tilelace
