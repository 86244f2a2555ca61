// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backend/cuda/device/sums_place.h"
#include "backend/cuda/kernels/gemm_params.h"

namespace tilelace::cuda {

/// A GEMM whose tiles go, rounded, into the own slot (`out`), and whose sums are made of whole
/// tiles (schedule/tile_sums.h). GemmCommon has neither bias nor activation: they come behind sums.
struct GemmSumsParams : GemmAlone {
  CallParams call;
  SumsPlace slots;
  std::size_t partials;  ///< offset of the slot's [m, n]
  std::size_t counts;    ///< offset of the slot's counts
  comm::Flag* uses;      ///< own: how often each count has been used
  SumsPlace results;
  std::size_t results_at;  ///< offset of [m, n]: where partials are, or where peers want results
  std::byte* delivered;    ///< [m, n] to which sums go in one shot, or are copied from the slot
  const void* sum_bias;    ///< [n] or null
  const void* residual;    ///< [m, n] or null
  Activation sum_activation;
  bool one_shot;  ///< a rank sums all pieces for itself, not a share of them for all
  int m;
};

}  // namespace tilelace::cuda
