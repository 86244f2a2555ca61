// SPDX-License-Identifier: Apache-2.0
// What follows from a tile shape: sizes, and where things lie in shared memory.
#pragma once
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/device/trace.h"
#include "backend/cuda/kernels/gemm_slices.h"
#include "plan/gemm_tiles.h"

namespace tilelace::cuda {

constexpr int kStep = 64;              ///< of k, in a stage: 128 bytes, one swizzle atom
constexpr int kChunkBytes = 64 * 128;  ///< 64 x 64 results

/// Tile: the members of plan::GemmTile as static constants (a struct as template argument crashes
/// nvcc 13.0's front end).
template <class Tile>
struct GemmShape {
  static constexpr int kRows = 64 * Tile::blocks * (Tile::pingpong ? 1 : Tile::groups);
  static constexpr int kRowsBytes = kRows * 128;
  static constexpr int kColsBytes = Tile::width * 128;
  static constexpr int kStageBytes = kRowsBytes + kColsBytes;
  static constexpr int kCluster = Tile::cluster_rows * Tile::cluster_cols;
  /// Columns that one CTA loads for its cluster; slices overlap where 8 does not divide evenly.
  static constexpr int kColSlice = (Tile::width / Tile::cluster_rows + 7) / 8 * 8;
  static constexpr int kRowSlice = kRows / Tile::cluster_cols;
  TILELACE_HD static constexpr TokenSlices tokens() {
    if (Tile::swapped) return {Tile::width, kColSlice, Tile::cluster_rows};
    return {kRows, kRowSlice, Tile::cluster_cols};
  }
  static constexpr int kArriving = kRowsBytes + Tile::cluster_rows * kColSlice * 128;
  static constexpr int kStagingBytes = Tile::groups * Tile::staging * kChunkBytes;
  static constexpr int kSharedBytes =
      Tile::stages * kStageBytes + kStagingBytes + 16 * Tile::stages + 16 + kTraceBytes;
  static constexpr int kThreads = 128 * (Tile::groups + 1);
  static constexpr int kAccumulators = Tile::width / 2;  ///< a thread and block
  static constexpr int kPartialFloats = kRows * Tile::width;
  static constexpr int kTurns = Tile::pingpong ? Tile::groups : 1;
  /// Registers move from the loading warpgroup to the multiplying ones where one CTA has all.
  static constexpr bool kMovesRegisters = Tile::groups == 2 && Tile::per_sm == 1;
  static constexpr bool kPushes = plan::can_push(Tile::blocks, Tile::width);
  /// A thread's; all together 504 a thread of each warpgroup. Waiting for peers takes more.
  TILELACE_HD static constexpr int load_registers(bool waits) {
    return waits && Tile::blocks * kAccumulators <= 176 ? 56 : 40;
  }
  TILELACE_HD static constexpr int math_registers(bool waits) {
    return (504 - load_registers(waits)) / 2;
  }
  static_assert(kSharedBytes <= (Tile::per_sm == 1 ? 232448 : 115712) && kRowSlice % 8 == 0 &&
                kRowSlice <= 256);
  static_assert(Tile::width % 8 == 0 && Tile::width <= 256);
};

/// Whether several weights may come at once, a section each.
template <class Tile, class Params>
inline constexpr bool kMerges =
    Params::kGathers ? !Params::kGates && plan::can_merge(Tile::blocks, Tile::width) : false;

/// Columns of the result that a tile has: where two products are made at once, half of its own.
template <class Tile, class Params>
inline constexpr int kOutWidth = Params::kGates ? Tile::width / 2 : Tile::width;

/// Addresses of the ring and the staging chunks.
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
  /// Over once it is known whether results may be stored.
  TILELACE_DEVICE ptx::Shared admitted() const { return empty(Tile::stages); }
  /// The first segment, of those that this CTA computes, whose operands are not what they should
  /// be; INT_MAX: none.
  TILELACE_DEVICE ptx::Shared failed() const { return admitted() + 8; }
  TILELACE_DEVICE ptx::Shared number() const { return failed() + 4; }
  TILELACE_DEVICE ptx::Shared trace() const { return number() + 4; }
};

/// Place in the ring, and the parity of its round. Segments follow each other without a gap: where
/// each began at stage 0, its first loads would wait for the last products of the one before.
template <int kStages>
struct Ring {
  int stage = 0;
  int parity = 0;

  TILELACE_DEVICE void advance() { skip(1); }
  TILELACE_DEVICE void skip(int steps) {
    stage += steps;
    parity ^= (stage / kStages) & 1;
    stage %= kStages;
  }
};

/// This CTA's place: in the cluster, and its worker's number. Workers are numbered against the
/// order in which CTAs are dispatched: whoever waits for a partial waits for a CTA that came
/// earlier.
template <class Tile>
struct Place {
  int cta, row, col, worker;

  TILELACE_DEVICE static Place here(const std::uint16_t* places) {
    constexpr int kCluster = GemmShape<Tile>::kCluster;
    const int cta = kCluster > 1 ? static_cast<int>(blockIdx.x) % kCluster : 0;
    const int cluster = static_cast<int>(blockIdx.x) / kCluster;
    const int last = static_cast<int>(gridDim.x) / kCluster - 1;
    return {cta, cta % Tile::cluster_rows, cta / Tile::cluster_rows,
            places != nullptr ? places[cluster] : last - cluster};
  }
  /// Index of the same CTA in the cluster of another worker.
  TILELACE_DEVICE int slot(int of_worker) const {
    return of_worker * GemmShape<Tile>::kCluster + cta;
  }
};

}  // namespace tilelace::cuda
