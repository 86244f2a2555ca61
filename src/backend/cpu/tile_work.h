// SPDX-License-Identifier: Apache-2.0
// What ops do with a tile on CPU ranks apart from the product. One row per op.
#pragma once
#include <cstdint>

#include "tilelace/choices.h"

namespace tilelace::cpu {

/// Changes `count` fp32 values before bias and activation: products of a tile's rows or, for an op
/// without weights, the rows themselves.
using TileWork = void (*)(float* values, std::int64_t count);

/// The work that this op does on its tiles; null: none. Only for ops that gather.
TileWork tile_work_of(Op);

}  // namespace tilelace::cpu
