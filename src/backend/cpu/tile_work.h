// SPDX-License-Identifier: Apache-2.0
// What each op does to a tile on CPU ranks besides the product: a table with one row per op.
#pragma once
#include <cstdint>

#include "tilelace/choices.h"

namespace tilelace::cpu {

/// Changes `count` fp32 values before bias and activation: products of a tile's rows or, for an op
/// without weights, the rows themselves.
using TileWork = void (*)(float* values, std::int64_t count);

/// The work that this op does on its tiles, or null. Only for ops that gather.
TileWork tile_work_of(Op);

}  // namespace tilelace::cpu
