// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backend/cuda/device/multimem_place.h"
#include "backend/cuda/kernels/gemm_params.h"

namespace tilelace::cuda {

/// A GEMM whose tiles go, rounded, into the own slot (`out`), and whose sums the switch makes
/// (schedule/multimem_tiles.h). GemmCommon has neither bias nor activation: they come behind sums.
struct GemmMultimemParams : GemmParams {
  CallParams call;
  MultimemPlace slots;
  std::size_t partials;  ///< offset of the slot's [m, n]
  std::size_t counts;    ///< offset of the slot's counts
  comm::Flag* uses;      ///< own: how many calls have used a part's counts
  MultimemPlace results;
  std::size_t results_at;  ///< offset of [m, n]: where partials are, or where peers want results
  std::byte* delivered;    ///< [m, n] to which sums are copied from the slot; null: not
  const void* sum_bias;    ///< [n] or null
  const void* residual;    ///< [m, n] or null
  Activation sum_activation;
  int m;
};

}  // namespace tilelace::cuda
