// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of the grouped product: a GEMM per expert, all in one kernel.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "plan/sm90_grouped.h"
#include "schedule/grouped_tiles.h"
#include "tilelace/choices.h"

namespace tilelace::cuda {

/// TMA boxes of 8, 16, 24 to 96 rows: what a CTA loads or stores of a tile at once.
constexpr int kRowBoxes = 12;
/// The most eights of rows that a CTA loads of a tile, and that a warpgroup stores at once.
constexpr int row_maps(const plan::GroupedShape& shape) { return shape.most / 8 / shape.cluster; }
constexpr int result_maps(const plan::GroupedShape& shape) { return shape.chunk_rows / 8; }
constexpr int kGroupedGroups = 2;  ///< warpgroups that multiply
constexpr int kGroupedThreads = 128 * (kGroupedGroups + 1);

/// A gate and an up, once clamped, give gate * sigmoid(alpha * gate) * (up + plus).
struct GateForm {
  float alpha;
  float limit;  ///< bound of the clamps gate <= limit and -limit <= up <= limit
  float plus;
};

struct GroupedParams {
  CUtensorMap rows[kRowBoxes];     ///< tensor maps of x, one per size of box that the tiles need
  CUtensorMap results[kRowBoxes];  ///< the same of out
  CUtensorMap weight;              ///< weights of all experts; if gated, only the gates
  CUtensorMap up;
  schedule::GroupedTiles tiles;
  const std::int32_t* begins;   ///< [experts + 1]: first row of each expert
  const std::int32_t* sources;  ///< row r is scaled by scale[sources[r]]; null: by scale[r]
  const float* scale;           ///< null: rows are not scaled
  const void* bias;             ///< null: no bias
  void* out;
  std::uint32_t* word;  ///< by which tiles are dealt: 0 before and after; null: dealt in turns
  int experts;
  int n;             ///< columns of the result
  int steps;         ///< number of steps along k, 64 elements each
  int weight_rows;   ///< rows per expert in the weight's map
  int bias_columns;  ///< number of biases per expert
  int bias_step;     ///< elements from a result column's bias to the next column's bias
  int bias_up;       ///< elements from a gate's bias to its up's bias
  GateForm gate;
  Activation activation;
};

}  // namespace tilelace::cuda
