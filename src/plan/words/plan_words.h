// SPDX-License-Identifier: Apache-2.0
// Parses a printed plan of GPU ranks, from records or `tilelace plan`. Words of older records are
// understood, too (docs/plans.md).
#pragma once
#include <string_view>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plan that a text describes for this problem. The text is either a public plan ("ag_gemm
/// fused mesh store tile 64x256 ...; v32 split 4 ..."), with or without the problem before it and
/// the reason after it, or a kernel's plan ("whole, sent by the product, chunks of 8 rows; c128
/// workers 66 ..."). Parts missing from the text have their defaults. Only a call checks whether
/// the plan can run. Errors: usage (an unknown word, a tile that is not compiled, another op,
/// a removed method).
Plan plan_of_words(const Problem&, std::string_view text);

/// The name of the tile in a plan's words; empty: they have none.
std::string_view tile_in_words(std::string_view plan);

}  // namespace tilelace::plan
