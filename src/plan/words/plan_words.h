// SPDX-License-Identifier: Apache-2.0
// A printed plan of GPU ranks back: what records and `tilelace plan` say, also in the words of
// records from before (docs/plans.md).
#pragma once
#include <string_view>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// The plan of this problem that a text says: a public one ("ag_gemm fused mesh store tile 64x256
/// ...; v32 split 4 ..."), with or without its problem before it and its reason behind it, or a
/// kernel's ("whole, sent by the product, chunks of 8 rows; c128 workers 66 ..."). What nobody says
/// is as by default. Whether it is legal is for who runs it to say. Errors: usage (a word that
/// means nothing, a tile that is not compiled, another op, a way that is gone).
Plan plan_of_words(const Problem&, std::string_view text);

}  // namespace tilelace::plan
