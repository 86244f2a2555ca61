// SPDX-License-Identifier: Apache-2.0
// Sums of collectives, element by element.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tilelace/collectives.h"

namespace tilelace::cpu {

/// Adds `count` elements of every term in the order of the terms; floats in fp32, rounded once.
/// Reduction::max: a NaN wins, and the first of equal values. `out` may be a term.
void add_up(Item, Reduction, std::span<const std::byte* const> terms, std::int64_t count,
            std::byte* out);

}  // namespace tilelace::cpu
