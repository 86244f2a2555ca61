// SPDX-License-Identifier: Apache-2.0
// The layout of a CTA's shared memory, positions in the ring, and the CTA's place in the grid.
#pragma once
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/kernels/sm90/shape.h"

namespace tilelace::cuda {

/// Named barriers. Barrier 0 is that of __syncthreads().
constexpr int kGroupBarrier = 1;  ///< kGroupBarrier + i: for the threads of math group i
constexpr int kTurnBarrier = 4;   ///< kTurnBarrier + i: math group i may multiply (ping-pong)

/// Addresses in a CTA's shared memory: the ring, staging chunks, barriers, words.
template <class Tile>
struct GemmShared {
  using Shape = GemmShape<Tile>;
  ptx::Shared base;

  TILELACE_DEVICE ptx::Shared rows(int stage) const { return base + stage * Shape::kStageBytes; }
  TILELACE_DEVICE ptx::Shared cols(int stage) const { return rows(stage) + Shape::kRowsBytes; }
  TILELACE_DEVICE ptx::Shared staging(int group) const {
    return base + Tile::stages * Shape::kStageBytes + group * Tile::staging * kChunkBytes;
  }
  TILELACE_DEVICE ptx::Shared full(int stage) const { return staging(Tile::groups) + 8 * stage; }
  TILELACE_DEVICE ptx::Shared empty(int stage) const { return full(Tile::stages) + 8 * stage; }
  /// A barrier whose phase ends when it is known whether results may be stored.
  TILELACE_DEVICE ptx::Shared admitted() const { return empty(Tile::stages); }
  /// Number of this CTA's first tile whose results must not be stored. INT_MAX: the results of all
  /// tiles may be stored.
  TILELACE_DEVICE ptx::Shared failed() const { return admitted() + 8; }
  TILELACE_DEVICE ptx::Shared number() const { return failed() + 4; }
  TILELACE_DEVICE ptx::Shared trace() const { return number() + 4; }
};

/// A position in the ring: the stage, and the parity of the round. A segment begins where the last
/// segment ended. If it began at stage 0, it would first wait for the last segment's MMAs.
template <int kStages>
struct Ring {
  int stage = 0;
  int parity = 0;

  TILELACE_DEVICE void advance() {
    const bool last = stage == kStages - 1;
    stage = last ? 0 : stage + 1;
    parity ^= last ? 1 : 0;
  }
  [[nodiscard]] TILELACE_DEVICE int before() const { return stage == 0 ? kStages - 1 : stage - 1; }
  TILELACE_DEVICE void skip(int steps) {
    stage += steps;
    parity ^= (stage / kStages) & 1;
    stage %= kStages;
  }
};

/// This CTA's place in the cluster, and its worker's number. Without `places`, workers are numbered
/// in reverse order of dispatch, so that CTAs wait only for partials of CTAs that were dispatched
/// earlier.
template <class Tile>
struct ClusterPlace {
  int cta, row, col, worker;

  TILELACE_DEVICE static ClusterPlace here(const std::uint16_t* places) {
    constexpr int kCluster = GemmShape<Tile>::kCluster;
    const int cta = kCluster > 1 ? static_cast<int>(blockIdx.x) % kCluster : 0;
    const int cluster = static_cast<int>(blockIdx.x) / kCluster;
    const int last = static_cast<int>(gridDim.x) / kCluster - 1;
    return {cta, cta % Tile::cluster_rows, cta / Tile::cluster_rows,
            places != nullptr ? places[cluster] : last - cluster};
  }
  /// Index of the CTA at the same place in another worker's cluster.
  TILELACE_DEVICE int slot(int of_worker) const {
    return of_worker * GemmShape<Tile>::kCluster + cta;
  }
};

}  // namespace tilelace::cuda
