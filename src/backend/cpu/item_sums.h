// SPDX-License-Identifier: Apache-2.0
// Reduces the terms of a collective, element by element.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tilelace/collectives.h"

namespace tilelace::cpu {

/// Reduces `count` elements of all terms, in the order of the terms. `out` may be a term. Floats
/// are added in fp32 and rounded once. Reduction::max takes a NaN, or else the first largest value.
void add_up(Item, Reduction, std::span<const std::byte* const> terms, std::int64_t count,
            std::byte* out);

}  // namespace tilelace::cpu
