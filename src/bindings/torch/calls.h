// SPDX-License-Identifier: Apache-2.0
// The ops on torch's tensors. Each checks its tensors, copies inputs whose layout does not fit,
// makes the call and copies results to where they are wanted.
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
  /// Sizes of dimension `dim` on all ranks: in x for a gather, in the result for a scatter. None: a
  /// gather has equal sizes, a scatter has an even split (the first ranks may have 1 more).
  Sizes sizes = {};
  std::optional<Tensor> like =
      {};  ///< instead of `sizes`, for a gather whose sizes are an even split of like.size(dim)
  std::optional<Tensors> out = {};  ///< tensors that receive the results
  std::optional<Tensor> gathered = {};
  std::optional<Tensor> residual = {};  ///< for sums: added to the result, whose shape it has
};

struct OpResults {
  std::optional<Tensor> gathered;  ///< the gathered operand, if asked for
  Tensors outs;
};
OpResults call(const OpCall& call);
/// The op's collective alone, without the GEMM. Returns x of all ranks (ag_gemm), this rank's part
/// of the sum of x (gemm_rs) or the whole sum (gemm_ar).
Tensor collective(const OpCall& call);

}  // namespace tilelace::torch_binding
