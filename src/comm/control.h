// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "comm/signal.h"

namespace tilelace::comm {

/// What each rank of a group keeps in symmetric memory from the start; zero at first.
struct ControlPage {
  alignas(64) AbortWord abort;  ///< written once, by any rank
  alignas(64) Flag leaving;     ///< written by its rank: 1 when its Group is being destroyed
};

}  // namespace tilelace::comm
