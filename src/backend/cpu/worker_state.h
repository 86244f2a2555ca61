// SPDX-License-Identifier: Apache-2.0
// What one compute worker owns: its GEMM engine and accumulators, made in prepare.
#pragma once
#include <memory>
#include <vector>

#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/packed_weight.h"
#include "backend/cpu/gemm/tile_gemm.h"
#include "plan/base/schedules.h"

namespace tilelace::cpu {

struct WorkerState {
  WorkerState(int tile_m, int tile_n)
      : max_rows(tile_m),
        gemm(tile_m),
        accumulator(static_cast<std::size_t>(tile_m) * tile_n),
        second(accumulator.size()) {}

  int max_rows;  ///< the most rows of a tile
  TileGemm gemm;
  std::vector<float> accumulator;
  std::vector<float> second;  ///< swiglu: the up product; reduce ops: the sum
  /// Own rows of border tiles, by tile column c: [c] at the shard's start, [cols + c] at its end.
  std::vector<std::vector<float>> parked;
};

/// The packed weights of a call. place() finds the weight that a column tile belongs to.
struct WeightColumns {
  std::vector<const PackedWeight*> weights;
  std::vector<std::unique_ptr<PackedWeight>> own;  ///< weights packed for this call, not by prepare
  bool paired = false;  ///< swiglu: a column tile is the same panel of gate and up

  struct Place {
    std::size_t weight;
    schedule::Index panel;
  };
  [[nodiscard]] Place place(schedule::Index col) const {
    std::size_t i = 0;
    if (!paired && !weights.empty()) {
      for (; col >= weights[i]->panels(); ++i) col -= weights[i]->panels();
    }
    return {i, col};
  }
};

}  // namespace tilelace::cpu
