// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on torch's tensors. All dimensions but the last count as rows; strides may be
// any.
#pragma once
#include <optional>
#include <string>

#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {

/// The results of a call, or the tensors given to receive them.
struct NormTensors {
  std::optional<Tensor> normed;     ///< shape and type of x
  std::optional<Tensor> out;        ///< shape and type of x: the sum, which is the next residual
  std::optional<Tensor> quantised;  ///< e4m3, in the shape of x
  std::optional<Tensor> scales;     ///< fp32; [.., 1] or [.., n / 128] for an x of [.., n]
};

struct NormCall {
  Tensor x;
  Tensor weight;
  std::optional<Tensor> residual;
  std::optional<Tensor> scale;  ///< for quant "given": one fp32 number
  std::string group;
  double eps = 1e-6;
  std::string quant = "none";
  bool return_normed = false;  ///< whether to return `normed` even when quantising
  std::optional<NormTensors> given = {};
};

/// Returns the results: the given tensors, or new ones.
NormTensors all_reduce_norm(const NormCall& call);

}  // namespace tilelace::torch_binding
