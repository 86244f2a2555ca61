// SPDX-License-Identifier: Apache-2.0
// The ops on torch's tensors: checks, layout in, the call, layout out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {

using Sizes = std::optional<std::vector<int64_t>>;
using Tensors = std::vector<Tensor>;

/// A call of any op.
struct OpCall {
  Op op{};
  Tensor x;
  Tensors weights;
  std::optional<Tensors> biases;
  std::string group;
  int64_t dim = 0;
  std::string activation = "none";
  bool return_gathered = false;
  /// Sizes of dimension `dim` on every rank: of x for a gather, of the result for a scatter. None:
  /// equal sizes for a gather, remainder first for a scatter.
  Sizes sizes = {};
  std::optional<Tensor> like =
      {};  ///< gathers, instead of `sizes`: like.size(dim), split remainder first
  std::optional<Tensors> out = {};  ///< where results go
  std::optional<Tensor> gathered = {};
  std::optional<Tensor> residual = {};  ///< sums: shaped as the result, added to it
};

struct OpResults {
  std::optional<Tensor> gathered;  ///< where the gathered operand goes
  Tensors outs;
};
OpResults call(const OpCall& call);
/// The collective alone, without the product: `gathered` is x of all ranks, or this rank's part of
/// the sum of x.
Tensor collective(const OpCall& call);

}  // namespace tilelace::torch_binding
