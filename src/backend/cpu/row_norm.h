// SPDX-License-Identifier: Apache-2.0
// The row norm of all_reduce_norm, applied to the sums.
#pragma once
#include <cstddef>

#include "tilelace/all_reduce_norm.h"

namespace tilelace::cpu {

/// Normalises all rows of the sums.
void norm_rows(const AllReduceNormArgs&, const std::byte* sums);

}  // namespace tilelace::cpu
