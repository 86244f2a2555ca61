// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm on torch's tensors: rows are all dimensions but the last, in any layout.
#pragma once
#include <optional>
#include <string>

#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {

/// Those that a call gives, or where they are wanted.
struct NormTensors {
  std::optional<Tensor> normed;     ///< as x
  std::optional<Tensor> out;        ///< as x: the next residual
  std::optional<Tensor> quantised;  ///< e4m3, in the shape of x
  std::optional<Tensor> scales;     ///< fp32 [.., 1] or [.., n / 128]
};

struct NormCall {
  Tensor x;
  Tensor weight;
  std::optional<Tensor> residual;
  std::optional<Tensor> scale;  ///< of quant given: one fp32 number
  std::string group;
  double eps = 1e-6;
  std::string quant = "none";
  bool return_normed = false;  ///< beside what is quantised, too
  std::optional<NormTensors> given = {};
};

/// The results: those that are given, or fresh ones.
NormTensors all_reduce_norm(const NormCall& call);

}  // namespace tilelace::torch_binding
