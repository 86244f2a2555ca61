// SPDX-License-Identifier: Apache-2.0
// Parses a printed plan of GPU ranks, from records or `tilelace plan`. Words of older records are
// understood, too (docs/plans.md).
#pragma once
#include <string_view>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plan that a text describes for this problem. The text is a public plan ("ag_gemm fused mesh
/// store tile 64x256 ...; v32 split 4 ..."), optionally between its problem and its reason, or a
/// kernel's plan ("whole, sent by the product, chunks of 8 rows; c128 workers 66 ..."). Parts that
/// the text lacks have their defaults. Whether the plan is possible is checked when it runs.
/// Errors: usage (an unknown word, a tile that is not compiled, another op, a method that was
/// removed).
Plan plan_of_words(const Problem&, std::string_view text);

}  // namespace tilelace::plan
