// SPDX-License-Identifier: Apache-2.0
// What all_reduce_norm does with rows that are added up.
#pragma once
#include <cstddef>

#include "tilelace/all_reduce_norm.h"

namespace tilelace::cpu {

/// Of the sums of all rows.
void norm_rows(const AllReduceNormArgs&, const std::byte* sums);

}  // namespace tilelace::cpu
