// SPDX-License-Identifier: Apache-2.0
// Values derived from a tile shape: shared memory, threads, registers. Also for the host.
#pragma once
#include "backend/cuda/device/trace.h"
#include "backend/cuda/kernels/token_slices.h"
#include "core/host_device.h"
#include "plan/gemm_tiles.h"

namespace tilelace::cuda {

constexpr int kStep = 64;              ///< extent of k in a stage: 128 bytes, one swizzle atom
constexpr int kChunkBytes = 64 * 128;  ///< 64 x 64 results of 2 bytes

/// Whether the steps after a tile's k-steps all fit the ring while the tile's last MMAs hold a
/// stage. Only then may a group wait for all these steps before it releases that stage.
TILELACE_HD constexpr bool steps_fit_ring(int steps, int stages) { return steps < stages; }

/// Tile kTile of plan::kGemmTiles as a type, with its members as static constants (a struct as
/// template argument crashes nvcc 13.0's front end).
template <int kTile>
struct TileOf {
  static constexpr int groups = plan::kGemmTiles[kTile].groups;
  static constexpr int blocks = plan::kGemmTiles[kTile].blocks;
  static constexpr int width = plan::kGemmTiles[kTile].width;
  static constexpr int stages = plan::kGemmTiles[kTile].stages;
  static constexpr int cluster_rows = plan::kGemmTiles[kTile].cluster_rows;
  static constexpr int cluster_cols = plan::kGemmTiles[kTile].cluster_cols;
  static constexpr int staging = plan::kGemmTiles[kTile].staging;
  static constexpr int per_sm = plan::kGemmTiles[kTile].per_sm;
  static constexpr bool pingpong = plan::kGemmTiles[kTile].pingpong;
  static constexpr bool swapped = plan::kGemmTiles[kTile].swapped;
};

template <class Tile>
struct GemmShape {
  static constexpr int kRows = 64 * Tile::blocks * (Tile::pingpong ? 1 : Tile::groups);
  static constexpr int kRowsBytes = kRows * 128;
  static constexpr int kColsBytes = Tile::width * 128;
  static constexpr int kStageBytes = kRowsBytes + kColsBytes;
  static constexpr int kCluster = Tile::cluster_rows * Tile::cluster_cols;
  /// Columns that a CTA loads for its cluster, rounded up to a multiple of 8. Slices may overlap.
  static constexpr int kColSlice = (Tile::width / Tile::cluster_rows + 7) / 8 * 8;
  static constexpr int kRowSlice = kRows / Tile::cluster_cols;
  TILELACE_HD static constexpr TokenSlices tokens() {
    if (Tile::swapped) return {Tile::width, kColSlice, Tile::cluster_rows};
    return {kRows, kRowSlice, Tile::cluster_cols};
  }
  /// Bytes of operands that all CTAs of the cluster together load into a stage of one CTA.
  static constexpr int kExpectedBytes = kRowsBytes + Tile::cluster_rows * kColSlice * 128;
  static constexpr int kStagingBytes = Tile::groups * Tile::staging * kChunkBytes;
  static constexpr int kSharedBytes =
      Tile::stages * kStageBytes + kStagingBytes + 16 * Tile::stages + 16 + kTraceBytes;
  static constexpr int kThreads = 128 * (Tile::groups + 1);
  static constexpr int kAccumulators = Tile::width / 2;  ///< per thread and block
  static constexpr int kPartialFloats = kRows * Tile::width;
  static constexpr int kTurns = Tile::pingpong ? Tile::groups : 1;
  /// Registers move from the loading to the multiplying warpgroups if a CTA has an SM to itself.
  static constexpr bool kMovesRegisters = Tile::groups == 2 && Tile::per_sm == 1;
  /// Registers per thread of the loading warpgroup. Kernels that wait for peers need more
  /// registers. If registers move, the numbers of the three warpgroups add up to 504.
  static constexpr int kLoadRegisters = 40;
  static constexpr int kWaitingRegisters = Tile::blocks * kAccumulators <= 176 ? 56 : 40;
  static_assert(kSharedBytes <= (Tile::per_sm == 1 ? 232448 : 115712) && kRowSlice % 8 == 0 &&
                kRowSlice <= 256);
  static_assert(Tile::width % 8 == 0 && Tile::width <= 256);
  // Else two slices may be partial at once, by unlike numbers, and there is one map for them.
  static_assert(Tile::cluster_rows * kColSlice - Tile::width <= 8);
};

/// Sizes of a tile's partial. A partial has the accumulator's layout, in pieces of eight values
/// from each thread of a group.
template <class Tile>
struct PartialShape {
  static constexpr int kOfBlock = GemmShape<Tile>::kAccumulators;
  static constexpr int kValues = Tile::blocks * kOfBlock;  ///< values per thread
  static constexpr int kPieces = (kValues + 7) / 8;
  static constexpr int kPieceBytes = 128 * 16;
  /// Number of pieces of each peer that are added at once.
  static constexpr int kAtOnce = plan::terms_at_once(Tile::width, Tile::pingpong);
  /// Number of math groups that share a tile. Each writes a part of the partial, with a flag.
  static constexpr int kGroups = Tile::pingpong ? 1 : Tile::groups;
  static constexpr int kBytes = kGroups * kPieces * kPieceBytes;  ///< bytes of one CTA's partial

  /// The lowest token of a warp in a piece, counted from the group's first token. If columns are
  /// tokens, a piece has 16 tokens in sequence, or a block's last 8 and the next block's first 8.
  TILELACE_HD static constexpr int first_token(int piece, int warp) {
    const int value = 8 * piece % kOfBlock;
    if (Tile::swapped) return value + 8 > kOfBlock ? 0 : 2 * value;
    return 8 * piece / kOfBlock * 64 + warp * 16;
  }
};

}  // namespace tilelace::cuda
