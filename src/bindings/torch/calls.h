// SPDX-License-Identifier: Apache-2.0
// The ops on torch's tensors: check what only torch has, lay out, call, lay back.
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
  /// Of dimension `dim` on every rank, of x where that is gathered, of the result where it is
  /// scattered. None: equal ones; of results split remainder first.
  Sizes sizes = {};
  std::optional<Tensor> like =
      {};  ///< gathers, instead of sizes: size `dim` of it, remainder first
  std::optional<Tensors> out = {};  ///< where results are wanted
  std::optional<Tensor> gathered = {};
};

struct OpResults {
  std::optional<Tensor> gathered;  ///< where it is wanted
  Tensors outs;
};
OpResults call(const OpCall& call);
/// The collective without the product: `gathered`, x of all ranks, or this rank's part of the sum
/// of x.
Tensor collective(const OpCall& call);

}  // namespace tilelace::torch_binding
