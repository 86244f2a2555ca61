// SPDX-License-Identifier: Apache-2.0
// The ops on torch's tensors. Each checks its tensors, lays inputs out, makes the call and lays
// results out.
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
  /// Size of dimension `dim` on every rank: of x for a gather, of the result for a scatter. None:
  /// equal sizes for a gather, an even split with the remainder first for a scatter.
  Sizes sizes = {};
  std::optional<Tensor> like =
      {};  ///< for a gather, instead of `sizes`: an even split of like.size(dim), remainder first
  std::optional<Tensors> out = {};  ///< tensors that receive the results
  std::optional<Tensor> gathered = {};
  std::optional<Tensor> residual = {};  ///< for sums: a tensor of the result's shape to add to it
};

struct OpResults {
  std::optional<Tensor> gathered;  ///< the gathered operand, if asked for
  Tensors outs;
};
OpResults call(const OpCall& call);
/// The op's collective alone, without the GEMM. Returns x of all ranks, or this rank's part of the
/// sum of x.
Tensor collective(const OpCall& call);

}  // namespace tilelace::torch_binding
