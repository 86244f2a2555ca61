// SPDX-License-Identifier: Apache-2.0
// Sums of collectives, an element after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tilelace/collectives.h"

namespace tilelace::cpu {

/// `count` elements of every term, added up in the order of the terms, beginning with the first;
/// floats in fp32, rounded once. max: a NaN stays, of equal ones the first. `out` may be a term.
void add_up(Item, Reduction, std::span<const std::byte* const> terms, std::int64_t count,
            std::byte* out);

}  // namespace tilelace::cpu
