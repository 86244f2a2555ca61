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
  int64_t dim = 0;  ///< that is gathered or scattered; all_to_all: the first
  /// Of dimension `dim` on every rank, of x where that is gathered, of the result where it is
  /// scattered. None: equal ones; of results split remainder first.
  Sizes sizes = {};
  /// Gathers, instead of sizes: size `dim` of it, remainder first.
  std::optional<Tensor> like = {};
  Sizes sends = {}, takes = {};  ///< all_to_all: rows to and from every rank; none: equal ones
  std::optional<Tensor> out = {};
};

/// The result: `out` where that is given.
Tensor collect(const CollectiveCall& call);

}  // namespace tilelace::torch_binding
