// SPDX-License-Identifier: Apache-2.0
// The ops on torch's tensors: check what only torch has, lay out, call, lay back.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {

using Sizes = std::optional<std::vector<int64_t>>;
using Tensors = std::vector<Tensor>;

struct GatherCall {
  Tensor x;
  Tensors weights;
  std::optional<Tensors> biases;
  std::string group;
  int64_t dim = 0;
  std::string activation = "none";
  bool return_gathered = false;
  Sizes sizes;                 ///< of dimension `dim` on every rank; none: equal ones
  std::optional<Tensor> like;  ///< instead of sizes: size `dim` of it, split remainder first
  std::optional<Tensors> out;  ///< where results are wanted
  std::optional<Tensor> gathered;
};

struct ReduceCall {
  Op op = Op::gemm_rs;
  Tensor x;
  Tensor weight;
  std::optional<Tensor> bias;
  std::string group;
  int64_t dim = 0;
  std::string activation = "none";
  Sizes sizes;  ///< of dimension `dim` of every rank's result; none: split remainder first
  std::optional<Tensor> out;
};

/// The gathered x, if it is wanted, and the results.
std::tuple<std::optional<Tensor>, Tensors> ag_gemm(const GatherCall& call);
Tensor gemm_reduce(const ReduceCall& call);
/// The collective without the product: x of all ranks; this rank's part of the sum of x.
Tensor all_gather(const GatherCall& call);
Tensor reduce_scatter(const ReduceCall& call);

}  // namespace tilelace::torch_binding
