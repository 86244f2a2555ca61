// SPDX-License-Identifier: Apache-2.0
// The normalisation of rows in all_reduce_norm, applied to the sums.
#pragma once
#include <cstddef>

#include "tilelace/all_reduce_norm.h"

namespace tilelace::cpu {

/// Normalises all rows of the sums.
void norm_rows(const AllReduceNormArgs&, const std::byte* sums);

}  // namespace tilelace::cpu
