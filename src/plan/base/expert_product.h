// SPDX-License-Identifier: Apache-2.0
// The products that the two halves of a layer of experts make on a rank.
#pragma once
#include "plan/grouped_product.h"
#include "tilelace/moe.h"

namespace tilelace::plan {

/// The product of the layer's first half (`first`) or second half, for the m tokens of all ranks.
inline GroupedProduct expert_product(const MoeLayer& l, std::int64_t m, bool first) {
  const bool gated = first && row_of(l.activation).gated;
  return {m * l.top_k,
          first ? (gated ? 2 : 1) * l.inner : l.hidden,
          first ? l.hidden : l.inner,
          l.here == 0 ? l.experts : l.here,
          gated,
          l.dtype};
}

}  // namespace tilelace::plan
