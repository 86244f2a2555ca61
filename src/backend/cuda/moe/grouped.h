// SPDX-License-Identifier: Apache-2.0
// The grouped product, as its kernels are given it.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "schedule/grouped_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// Boxes of 8, 16, .. 128 rows: with at most one of each they cover any multiple of 8 up to 248.
constexpr int kRowBoxes = 5;
constexpr int kGroupedGroups = 2;  ///< warpgroups that multiply
constexpr int kGroupedThreads = 128 * (kGroupedGroups + 1);

/// Gate and up of a gated product, clamped or not: gate * sigmoid(alpha * gate) * (up + plus).
struct GateForm {
  float alpha;
  float limit;  ///< gate at most, up from -limit to limit
  float plus;
};

struct GroupedParams {
  CUtensorMap rows[kRowBoxes];  ///< x
  CUtensorMap weight;           ///< of all experts, one after the other; gated: the gates alone
  CUtensorMap up;
  schedule::GroupedTiles tiles;
  const std::int32_t* begins;   ///< [experts + 1]: first row of each
  const std::int32_t* sources;  ///< where a row's scale is; null: at the row's own number
  const float* scale;           ///< or null
  const void* bias;             ///< or null
  void* out;
  int experts;
  int n;             ///< columns of the result
  int steps;         ///< of k, 64 each
  int weight_rows;   ///< of an expert, in the weight's map
  int bias_columns;  ///< of an expert
  int bias_step;     ///< elements from one column to the next
  int bias_up;       ///< elements from a gate's bias to its up's
  GateForm gate;
  Activation activation;
};

}  // namespace tilelace::cuda
