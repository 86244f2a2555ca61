// SPDX-License-Identifier: Apache-2.0
// The parameters of the grouped product's kernels.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "schedule/grouped_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// Boxes of 8, 16, .. 128 rows: at most one of each covers any multiple of 8 up to 248.
constexpr int kRowBoxes = 5;
constexpr int kGroupedGroups = 2;  ///< warpgroups that multiply
constexpr int kGroupedThreads = 128 * (kGroupedGroups + 1);

/// How gate and up are combined, clamped or not: gate * sigmoid(alpha * gate) * (up + plus).
struct GateForm {
  float alpha;
  float limit;  ///< gate is at most this, up in -limit..limit
  float plus;
};

struct GroupedParams {
  CUtensorMap rows[kRowBoxes];  ///< x
  CUtensorMap weight;           ///< weights of all experts; gated: only the gates
  CUtensorMap up;
  schedule::GroupedTiles tiles;
  const std::int32_t* begins;   ///< [experts + 1]: first row of each expert
  const std::int32_t* sources;  ///< row r has scale[sources[r]]; null: scale[r]
  const float* scale;           ///< or null
  const void* bias;             ///< or null
  void* out;
  int experts;
  int n;             ///< columns of the result
  int steps;         ///< steps of k, 64 each
  int weight_rows;   ///< rows per expert in the weight's map
  int bias_columns;  ///< number of biases per expert
  int bias_step;     ///< elements from one column's bias to the next one's
  int bias_up;       ///< elements from a gate's bias to its up's bias
  GateForm gate;
  Activation activation;
};

}  // namespace tilelace::cuda
