// SPDX-License-Identifier: Apache-2.0
// What ops do with a tile on CPU ranks beside their product, a row an op.
#pragma once
#include <cstdint>

#include "tilelace/choices.h"

namespace tilelace::cpu {

/// Changes `count` values in fp32, before bias and activation: the products of a tile's rows or, of
/// an op without weights, the rows themselves.
using TileWork = void (*)(float* values, std::int64_t count);

/// Null: nothing. For ops that gather.
TileWork tile_work_of(Op);

}  // namespace tilelace::cpu
