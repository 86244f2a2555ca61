// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "comm/signal.h"

namespace tilelace::comm {

/// The page that each rank of a group has in symmetric memory. It is zero at first.
struct ControlPage {
  alignas(64) AbortWord abort;  ///< written at most once, by any rank
  alignas(64) Flag leaving;     ///< written by its own rank: 1 when the rank destroys its Group
};

}  // namespace tilelace::comm
