// SPDX-License-Identifier: Apache-2.0
// Collectives on torch's tensors: any layout, split along any dimension.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "bindings/torch/calls.h"
#include "tilelace/collectives.h"

namespace tilelace::torch_binding {

struct CollectiveCall {
  Collective collective{};
  Tensor x;
  std::string group;
  std::string reduction = "sum";
  int64_t dim = 0;  ///< the dimension that is gathered or scattered; for all_to_all: 0
  /// Sizes of dimension `dim` on all ranks: in x for a gather, in the result for a scatter. None: a
  /// gather has equal sizes, a scatter has an even split (the first ranks may have 1 more).
  Sizes sizes = {};
  /// Given instead of `sizes`, for a gather whose sizes are an even split of like.size(dim).
  std::optional<Tensor> like = {};
  Sizes sends = {}, takes = {};  ///< all_to_all: rows sent to and taken from each rank; none: equal
  std::optional<Tensor> out = {};
};

/// Returns the result: `out` if that is given, else a new tensor.
Tensor collect(const CollectiveCall& call);

}  // namespace tilelace::torch_binding
