// SPDX-License-Identifier: Apache-2.0
// Parses a printed plan of GPU ranks: from records and `tilelace plan`, also in words of older
// records (docs/plans.md).
#pragma once
#include <string_view>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plan of this problem that a text describes: a public plan ("ag_gemm fused mesh store tile
/// 64x256 ...; v32 split 4 ..."), with or without its problem before it and its reason after it, or
/// a kernel's ("whole, sent by the product, chunks of 8 rows; c128 workers 66 ..."). What the text
/// leaves out has its default. Whether the plan is possible is checked when it runs. Errors: usage
/// (an unknown word, a tile that is not compiled, another op, a method that was removed).
Plan plan_of_words(const Problem&, std::string_view text);

}  // namespace tilelace::plan
