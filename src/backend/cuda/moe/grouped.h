// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of the grouped product: a GEMM per expert, all in one kernel.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "schedule/grouped_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// Boxes of 8, 16, 32, 64 and 128 rows: at most one of each covers any multiple of 8 up to 248.
constexpr int kRowBoxes = 5;
constexpr int kGroupedGroups = 2;  ///< warpgroups that multiply
constexpr int kGroupedThreads = 128 * (kGroupedGroups + 1);

/// How gate and up are combined, clamped or not: gate * sigmoid(alpha * gate) * (up + plus).
struct GateForm {
  float alpha;
  float limit;  ///< clamps: gate <= limit, -limit <= up <= limit
  float plus;
};

struct GroupedParams {
  CUtensorMap rows[kRowBoxes];  ///< maps of x, one per box
  CUtensorMap weight;           ///< weights of all experts; if gated, only the gates
  CUtensorMap up;
  schedule::GroupedTiles tiles;
  const std::int32_t* begins;   ///< [experts + 1]: first row of each expert
  const std::int32_t* sources;  ///< row r is scaled by scale[sources[r]]; null: by scale[r]
  const float* scale;           ///< or null: rows are not scaled
  const void* bias;             ///< or null: no bias
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
