// SPDX-License-Identifier: Apache-2.0
// The tile shapes of the sm_90a GEMM, one row each, and which kernels are compiled for them.
// Kernels, plans and tests are made from this table. plan/gemm/architecture_plans.cc says which
// architecture has these tiles.
#pragma once
#include <initializer_list>
#include <string_view>

namespace tilelace::plan {

/// `groups`: math warpgroups. `blocks`: 64-row blocks per warpgroup. `width`: columns of the tile.
/// `stages`: stages of the operand ring, each for 64 elements of k. `cluster_rows` x
/// `cluster_cols`: CTAs of a cluster. CTAs of a row (column) share the row (column) operand.
/// `staging`: number of 8 KiB chunks for results per math warpgroup. `pingpong`: the warpgroups
/// alternate, each with its own tile; false: they split a tile's rows. `swapped`: weights on the
/// row side, tokens on the column side. `per_sm`: CTAs per SM (2: the next kernel loads early).
struct GemmTile {
  std::string_view name;
  int groups = 2;
  int blocks = 1;
  int width = 256;
  int stages = 4;
  int cluster_rows = 2;
  int cluster_cols = 1;
  int staging = 2;
  bool pingpong = false;
  bool swapped = false;
  int per_sm = 1;

  /// Rows of one CTA's tile.
  [[nodiscard]] constexpr int rows() const { return 64 * blocks * (pingpong ? 1 : groups); }
  [[nodiscard]] constexpr int cluster() const { return cluster_rows * cluster_cols; }
  /// Extents of the tile of a worker, which is a cluster. The tile's columns are tokens if swapped.
  [[nodiscard]] constexpr int worker_rows() const { return rows() * cluster_rows; }
  [[nodiscard]] constexpr int worker_cols() const { return width * cluster_cols; }
  [[nodiscard]] constexpr int worker_tokens() const {
    return swapped ? worker_cols() : worker_rows();
  }
  [[nodiscard]] constexpr int worker_columns() const {
    return swapped ? worker_rows() : worker_cols();
  }
  bool operator==(const GemmTile&) const = default;
};

constexpr bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view n : names)
    if (name == n) return true;
  return false;
}

/// Every tile has a kernel for a GEMM alone.
constexpr bool can_multiply(const GemmTile& /*t*/) { return true; }

/// Whether this is a swapped tile (tokens on the column side) for many tokens.
constexpr bool is_across(int width, bool swapped) { return swapped && width > 64 && width < 256; }
constexpr bool is_across(const GemmTile& t) { return is_across(t.width, t.swapped); }

/// Whether there are kernels of gemm_rs for this tile. Narrow tiles serve few rows, for which
/// gemm_rs is not fused. Wide or tall tiles without ping-pong do not multiply while they send, and
/// were never the best. Swapped tiles for many tokens are best if they pad few rows; the swapped
/// q184 has no kernel, because it needs too many registers.
constexpr bool can_reduce(const GemmTile& t) {
  if (t.groups != 2) return false;
  if (t.swapped) return is_across(t) && t.blocks * t.width / 2 <= 176;
  return t.pingpong || (t.blocks == 1 && t.width >= 128 && t.width <= 160);
}

/// Whether there are kernels of gemm_rs whose clusters span two shards. They serve shards of few
/// rows, which would leave half of a cluster's tile without rows.
constexpr bool can_pair(const GemmTile& t) {
  return is_one_of(t.name, {"c160", "c128", "c80", "p160", "p128", "p80"});
}

/// How many 2 KiB pieces of each peer's partial are added at once. It is two if the other warpgroup
/// multiplies meanwhile, a stage of the ring has room for two pieces from each of eight peers, and
/// there are enough registers; else it is one.
constexpr int terms_at_once(int width, bool pingpong) {
  return pingpong && width >= 128 && width < 192 ? 2 : 1;
}

/// Whether there are kernels of ag_gemm for this tile. t192 has too few registers to wait for rows.
constexpr bool can_gather(const GemmTile& t) { return t.name != "t192"; }

/// Whether warps of ag_gemm's kernels have enough registers left to send rows.
constexpr bool can_push(int blocks, int width) { return blocks * width / 2 <= 176; }

/// Whether kernels of ag_gemm take several weights at once. Kernels for few tokens do, where one
/// kernel per weight would cost most. Other tiles have no registers left for several weights.
constexpr bool can_merge(int blocks, int width) { return blocks * width / 2 <= 128; }
inline constexpr int kMostWeights = 4;  ///< the most weights of one kernel

/// Whether there are kernels of gemm_ar for this tile. Ping-pong tiles multiply while they send.
/// Tiles that two warpgroups share end sooner, which suits few rows in a single wave.
constexpr bool can_share(const GemmTile& t) {
  return is_one_of(t.name, {"c128", "c128_1x2", "c80", "c80_1x2", "c64_1x2"}) ||
         (t.pingpong && !t.swapped && t.blocks * t.width / 2 <= 192);
}

/// Whether there are kernels that compute gate and up in one product. To keep the build short,
/// these exist only for tiles that predictions choose for the MLPs of models. Columns of the weight
/// are halved; in swapped tiles one of a warpgroup's two blocks is gate, the other one up.
constexpr bool can_gate(const GemmTile& t) {
  return is_one_of(
      t.name, {"c224", "c128_1x2", "c112_1x2", "c80_1x2", "c64_1x2", "p192", "p176", "p144",
               "s96_1x2", "s32_1x2", "y104_1x2", "y152_1x2", "y168_1x2", "q104", "q136", "q160"});
}

/// Whether gemm_ar has kernels with transport pull, in which a rank's partials stay in its memory
/// and peers read them. To keep the build short, only tiles of many rows have such kernels.
constexpr bool can_pull(const GemmTile& t) {
  return is_one_of(t.name, {"p128", "p144", "p160", "p168", "p176", "p184"});
}
/// Whether gemm_ar has kernels with transport multimem, where the NVLink switch adds the partials.
constexpr bool can_multimem(const GemmTile& t) { return is_one_of(t.name, {"p128", "p160"}); }

/// Name, groups, blocks, width, stages, cluster rows and cols, staging, pingpong, swapped, per_sm.
/// Kernels refer to a tile by its index here.
// clang-format off
inline constexpr GemmTile kGemmTiles[] = {
    // 128 rows; two warpgroups share a tile.
    {"c256",      2, 1, 256,  4, 2, 1, 2, false, false, 1},
    {"c224",      2, 1, 224,  4, 2, 1, 2, false, false, 1},
    {"c208",      2, 1, 208,  5, 2, 1, 1, false, false, 1},
    {"c200",      2, 1, 200,  5, 2, 1, 1, false, false, 1},
    {"c192",      2, 1, 192,  5, 2, 1, 1, false, false, 1},
    {"c160",      2, 1, 160,  5, 2, 1, 2, false, false, 1},
    {"c128",      2, 1, 128,  6, 2, 1, 2, false, false, 1},
    {"c128_1x2",  2, 1, 128,  6, 1, 2, 2, false, false, 1},
    {"c112_1x2",  2, 1, 112,  7, 1, 2, 1, false, false, 1},
    {"c104",      2, 1, 104,  7, 2, 1, 1, false, false, 1},
    {"c104_1x2",  2, 1, 104,  7, 1, 2, 1, false, false, 1},
    {"c64_1x2",   2, 1,  64,  8, 1, 2, 1, false, false, 1},
    {"c64_2x2",   2, 1,  64,  8, 2, 2, 1, false, false, 1},
    {"c64_2x4",   2, 1,  64,  8, 2, 4, 1, false, false, 1},
    {"c128_2x4",  2, 1, 128,  6, 2, 4, 2, false, false, 1},
    {"c80",       2, 1,  80,  8, 2, 1, 1, false, false, 1},
    {"c80_1x2",   2, 1,  80,  8, 1, 2, 1, false, false, 1},
    // 128 rows per warpgroup; ping-pong.
    {"p192",      2, 2, 192,  5, 2, 1, 1, true, false, 1},
    {"p184",      2, 2, 184,  5, 2, 1, 1, true, false, 1},
    {"p176",      2, 2, 176,  5, 2, 1, 1, true, false, 1},
    {"p168",      2, 2, 168,  5, 2, 1, 1, true, false, 1},
    {"p160",      2, 2, 160,  5, 2, 1, 2, true, false, 1},
    {"p144",      2, 2, 144,  6, 2, 1, 1, true, false, 1},
    {"p128",      2, 2, 128,  6, 2, 1, 2, true, false, 1},
    {"p128_1x2",  2, 2, 128,  6, 1, 2, 2, true, false, 1},
    {"p80",       2, 2,  80,  8, 2, 1, 1, true, false, 1},
    {"p80_1x2",   2, 2,  80,  8, 1, 2, 1, true, false, 1},
    // 256 rows; two warpgroups share a tile.
    {"t176",      2, 2, 176,  3, 2, 1, 2, false, false, 1},
    {"t192_1x2",  2, 2, 192,  3, 1, 2, 2, false, false, 1},
    {"t176_1x2",  2, 2, 176,  3, 1, 2, 2, false, false, 1},
    {"t160",      2, 2, 160,  4, 2, 1, 1, false, false, 1},
    {"t192",      2, 2, 192,  3, 2, 1, 2, false, false, 1},
    // Tiles for few tokens, with 64 rows of tokens, narrow strips of the weight and deep rings.
    {"s32_1x2",   1, 1,  32, 16, 1, 2, 1, false, false, 1},
    {"s40",       1, 1,  40, 16, 1, 1, 1, false, false, 1},
    {"s40_1x2",   1, 1,  40, 16, 1, 2, 1, false, false, 1},
    {"s48_1x2",   1, 1,  48, 14, 1, 2, 1, false, false, 1},
    {"s56",       1, 1,  56, 13, 1, 1, 1, false, false, 1},
    {"s56_1x2",   1, 1,  56, 13, 1, 2, 1, false, false, 1},
    {"s64",       1, 1,  64, 13, 1, 1, 1, false, false, 1},
    {"s64_1x2",   1, 1,  64, 13, 1, 2, 1, false, false, 1},
    {"s80_1x2",   1, 1,  80, 11, 1, 2, 1, false, false, 1},
    {"s96",       1, 1,  96, 10, 1, 1, 1, false, false, 1},
    {"s96_1x2",   1, 1,  96, 10, 1, 2, 1, false, false, 1},
    {"s104",      1, 1, 104, 10, 1, 1, 1, false, false, 1},
    {"s112",      1, 1, 112,  9, 1, 1, 1, false, false, 1},
    {"s192",      1, 1, 192,  6, 1, 1, 1, false, false, 1},
    // Swapped (weights on the row side). The narrowest are for the fewest tokens; up to 224 tokens
    // CTAs without clusters take in more bytes a clock than pairs; w256 is for many.
    {"v16",       1, 1,  16,  9, 1, 1, 1, false, true, 2},
    {"v16d",      1, 1,  16, 18, 1, 1, 1, false, true, 1},
    {"v32",       1, 1,  32, 16, 1, 1, 1, false, true, 1},
    {"v32_4x2",   1, 1,  32, 16, 4, 2, 1, false, true, 1},
    {"v96",       1, 1,  96, 10, 2, 1, 1, false, true, 1},
    {"v96_1x1",   1, 1,  96, 10, 1, 1, 1, false, true, 1},
    {"v128",      1, 1, 128,  8, 2, 1, 1, false, true, 1},
    {"v128_1x1",  1, 1, 128,  9, 1, 1, 1, false, true, 1},
    {"v168",      1, 1, 168,  7, 1, 1, 1, false, true, 1},
    {"v192",      1, 1, 192,  6, 1, 1, 1, false, true, 1},
    {"v224",      1, 1, 224,  6, 1, 1, 1, false, true, 1},
    {"w16",       2, 1,  16,  5, 1, 1, 1, false, true, 2},
    {"w32",       2, 1,  32,  4, 1, 1, 1, false, true, 2},
    {"w256",      2, 1, 256,  4, 2, 1, 2, false, true, 1},
    // Swapped, for many tokens. Their number is seldom a multiple of 64, and one of these widths
    // pads few tokens. 128 rows of the weight; two warpgroups share a tile.
    {"w152",      2, 1, 152,  6, 2, 1, 1, false, true, 1},
    {"w168",      2, 1, 168,  5, 2, 1, 2, false, true, 1},
    {"w200",      2, 1, 200,  5, 2, 1, 1, false, true, 1},
    {"w216",      2, 1, 216,  4, 2, 1, 2, false, true, 1},
    {"w232",      2, 1, 232,  4, 2, 1, 2, false, true, 1},
    // Swapped, for many tokens, with 256 rows of the weight; two warpgroups share a tile.
    {"y104_1x2",  2, 2, 104,  4, 1, 2, 2, false, true, 1},
    {"y112",      2, 2, 112,  4, 2, 1, 2, false, true, 1},
    {"y136_1x2",  2, 2, 136,  4, 1, 2, 1, false, true, 1},
    {"y152_1x2",  2, 2, 152,  4, 1, 2, 1, false, true, 1},
    {"y168_1x2",  2, 2, 168,  3, 1, 2, 2, false, true, 1},
    // Swapped, for many tokens, with 128 rows of the weight per warpgroup; ping-pong.
    {"q104",      2, 2, 104,  7, 2, 1, 1, true, true, 1},
    {"q136",      2, 2, 136,  6, 2, 1, 1, true, true, 1},
    {"q160",      2, 2, 160,  5, 2, 1, 2, true, true, 1},
    {"q184",      2, 2, 184,  5, 2, 1, 1, true, true, 1},
};
// clang-format on

}  // namespace tilelace::plan
