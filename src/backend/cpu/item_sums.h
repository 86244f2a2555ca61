// SPDX-License-Identifier: Apache-2.0
// Adds the terms of collectives, element by element.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tilelace/collectives.h"

namespace tilelace::cpu {

/// Adds `count` elements of every term, in the order of the terms; floats are added in fp32 and
/// rounded once. Reduction::max: a NaN wins; the first of equal values wins. `out` may be a term.
void add_up(Item, Reduction, std::span<const std::byte* const> terms, std::int64_t count,
            std::byte* out);

}  // namespace tilelace::cpu
