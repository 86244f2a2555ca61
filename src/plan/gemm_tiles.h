// SPDX-License-Identifier: Apache-2.0
// The tile shapes that the sm_90a GEMM is compiled for. One line each; kernels, plans and tests are
// made from these lists. Whose tiles they are: plan/gemm/architecture_plans.cc.
#pragma once
#include <initializer_list>
#include <string_view>

namespace tilelace::plan {

/// groups: math warpgroups. blocks: 64-row blocks a warpgroup computes. width: columns of the tile.
/// stages: ring depth, 64 of k each. cluster: rows x cols of CTAs; a column of CTAs shares the
/// operand on the column side, a row the one on the row side. staging: 8 KiB chunks a math
/// warpgroup stages results in. pingpong: a tile a warpgroup, in turns; else the warpgroups split
/// one tile's rows. swapped: the weight is on the row side, tokens on the column side. per_sm: CTAs
/// that fit one multiprocessor (2: the next kernel's first loads run under this one's end).
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
  /// Rows and columns of what one worker, a cluster, computes; of the tile, and of the result.
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

/// Whether tokens are across, for many rows.
constexpr bool is_across(int width, bool swapped) { return swapped && width > 64 && width < 256; }
constexpr bool is_across(const GemmTile& t) { return is_across(t.width, t.swapped); }

/// Whether the kernels of gemm_rs are made for these tiles: narrow ones serve few rows, for which
/// the fused kernel is not taken; wide and tall ones whose groups take no turns hold their products
/// up while they send, and were the best plan of no row. Of those with tokens across, whose plans
/// with few empty places were ahead all the same, q184 has no registers left.
constexpr bool can_reduce(int groups, int blocks, int width, bool pingpong, bool swapped) {
  if (groups != 2) return false;
  if (swapped) return is_across(width, swapped) && blocks * width / 2 <= 176;
  return pingpong || (blocks == 1 && width >= 128 && width <= 160);
}

/// Whether there are kernels of gemm_rs whose clusters lie across two shards: for shards of few
/// rows, of which a cluster within one would leave half empty.
constexpr bool can_pair(std::string_view name) {
  return is_one_of(name, {"c160", "c128", "c80", "p160", "p128", "p80"});
}

/// Pieces of a peer's term that are added together, and so are in one step of the ring: several
/// where the other group multiplies meanwhile and a step has room for them (up to nine ranks).
constexpr int terms_at_once(int width, bool pingpong) { return pingpong && width >= 128 ? 2 : 1; }

/// Whether warps of ag_gemm's kernels have registers left to send rows.
constexpr bool can_push(int blocks, int width) { return blocks * width / 2 <= 176; }

/// Whether kernels of ag_gemm take several weights at once: tiles for few tokens, where a kernel a
/// weight costs most. Others have no registers to spare.
constexpr bool can_merge(int blocks, int width) { return blocks * width / 2 <= 128; }
inline constexpr int kMostWeights = 4;  ///< at once

/// Whether kernels of gemm_ar are made: groups that take turns send under each other's products;
/// those that share a tile finish it sooner, where a call is one wave of few rows.
constexpr bool can_share(std::string_view name, int blocks, int width, bool pingpong,
                         bool swapped) {
  return is_one_of(name, {"c128", "c128_1x2", "c80", "c80_1x2", "c64_1x2"}) ||
         (pingpong && !swapped && blocks * width / 2 <= 192);
}

/// Whether there are kernels that make two products at once, gate and up: of the tiles whose
/// columns can be halved those that predictions choose for the MLPs of models, so that building is
/// short.
constexpr bool can_gate(std::string_view name) {
  return is_one_of(name, {"c224", "c128_1x2", "c112_1x2", "c80_1x2", "c64_1x2", "p192", "p176",
                          "p144", "s96_1x2", "s32_1x2"});
}

/// Whether there are kernels of gemm_ar of this tile whose ranks keep their partials, to be pulled
/// by whoever sums: of tiles for many rows, so that building is short.
constexpr bool can_pull(std::string_view name) {
  return is_one_of(name, {"p128", "p144", "p160", "p168", "p176", "p184"});
}
/// The same whose sums the switch makes.
constexpr bool can_multimem(std::string_view name) { return is_one_of(name, {"p128", "p160"}); }

// clang-format off
// name, groups, blocks, width, stages, cluster rows, cols, staging, pingpong, swapped, per_sm

// 128 rows, two warpgroups on one tile.
#define TILELACE_GEMM_COOPERATIVE(X)                   \
  X(c256,     2, 1, 256, 4, 2, 1, 2, false, false, 1)  \
  X(c224,     2, 1, 224, 4, 2, 1, 2, false, false, 1)  \
  X(c208,     2, 1, 208, 5, 2, 1, 1, false, false, 1)  \
  X(c200,     2, 1, 200, 5, 2, 1, 1, false, false, 1)  \
  X(c192,     2, 1, 192, 5, 2, 1, 1, false, false, 1)  \
  X(c160,     2, 1, 160, 5, 2, 1, 2, false, false, 1)  \
  X(c128,     2, 1, 128, 6, 2, 1, 2, false, false, 1)  \
  X(c128_1x2, 2, 1, 128, 6, 1, 2, 2, false, false, 1)  \
  X(c112_1x2, 2, 1, 112, 7, 1, 2, 1, false, false, 1)  \
  X(c104,     2, 1, 104, 7, 2, 1, 1, false, false, 1)  \
  X(c104_1x2, 2, 1, 104, 7, 1, 2, 1, false, false, 1)  \
  X(c64_1x2,  2, 1,  64, 8, 1, 2, 1, false, false, 1)  \
  X(c64_2x2,  2, 1,  64, 8, 2, 2, 1, false, false, 1)  \
  X(c64_2x4,  2, 1,  64, 8, 2, 4, 1, false, false, 1)  \
  X(c128_2x4, 2, 1, 128, 6, 2, 4, 2, false, false, 1)  \
  X(c80,      2, 1,  80, 8, 2, 1, 1, false, false, 1)  \
  X(c80_1x2,  2, 1,  80, 8, 1, 2, 1, false, false, 1)

// 128 rows a warpgroup, in turns.
#define TILELACE_GEMM_PINGPONG(X)                      \
  X(p192,     2, 2, 192, 5, 2, 1, 1, true,  false, 1)  \
  X(p184,     2, 2, 184, 5, 2, 1, 1, true,  false, 1)  \
  X(p176,     2, 2, 176, 5, 2, 1, 1, true,  false, 1)  \
  X(p168,     2, 2, 168, 5, 2, 1, 1, true,  false, 1)  \
  X(p160,     2, 2, 160, 5, 2, 1, 2, true,  false, 1)  \
  X(p144,     2, 2, 144, 6, 2, 1, 1, true,  false, 1)  \
  X(p128,     2, 2, 128, 6, 2, 1, 2, true,  false, 1)  \
  X(p128_1x2, 2, 2, 128, 6, 1, 2, 2, true,  false, 1)  \
  X(p80,      2, 2,  80, 8, 2, 1, 1, true,  false, 1)  \
  X(p80_1x2,  2, 2,  80, 8, 1, 2, 1, true,  false, 1)

// 256 rows, two warpgroups on one tile.
#define TILELACE_GEMM_TALL(X)                          \
  X(t176,     2, 2, 176, 3, 2, 1, 2, false, false, 1)  \
  X(t192_1x2, 2, 2, 192, 3, 1, 2, 2, false, false, 1)  \
  X(t176_1x2, 2, 2, 176, 3, 1, 2, 2, false, false, 1)  \
  X(t160,     2, 2, 160, 4, 2, 1, 1, false, false, 1)

// The same, with no registers left for waiting: not for gathered rows.
#define TILELACE_GEMM_TALL_ALONE(X)                    \
  X(t192,     2, 2, 192, 3, 2, 1, 2, false, false, 1)

// Few tokens: 64 rows of tokens, narrow strips of the weight, deep rings.
#define TILELACE_GEMM_NARROW(X) \
  X(s32_1x2, 1, 1, 32, 16, 1, 2, 1, false, false, 1) \
  X(s40, 1, 1, 40, 16, 1, 1, 1, false, false, 1) \
  X(s40_1x2, 1, 1, 40, 16, 1, 2, 1, false, false, 1) \
  X(s48_1x2, 1, 1, 48, 14, 1, 2, 1, false, false, 1) \
  X(s56, 1, 1, 56, 13, 1, 1, 1, false, false, 1) \
  X(s56_1x2, 1, 1, 56, 13, 1, 2, 1, false, false, 1) \
  X(s64, 1, 1, 64, 13, 1, 1, 1, false, false, 1) \
  X(s64_1x2, 1, 1, 64, 13, 1, 2, 1, false, false, 1) \
  X(s80_1x2, 1, 1, 80, 11, 1, 2, 1, false, false, 1) \
  X(s96, 1, 1, 96, 10, 1, 1, 1, false, false, 1) \
  X(s96_1x2, 1, 1, 96, 10, 1, 2, 1, false, false, 1) \
  X(s104, 1, 1, 104, 10, 1, 1, 1, false, false, 1) \
  X(s112, 1, 1, 112, 9, 1, 1, 1, false, false, 1) \
  X(s192, 1, 1, 192, 6, 1, 1, 1, false, false, 1)

// The fewest tokens: rows of the weight, tokens across.
#define TILELACE_GEMM_SWAPPED(X)                       \
  X(v16,      1, 1,  16, 9, 1, 1, 1, false, true,  2)  \
  X(v16d,     1, 1,  16, 18, 1, 1, 1, false, true, 1)  \
  X(v32,      1, 1,  32, 16, 1, 1, 1, false, true, 1)  \
  X(v32_4x2,  1, 1,  32, 16, 4, 2, 1, false, true, 1)  \
  X(w16,      2, 1,  16, 5, 1, 1, 1, false, true,  2)  \
  X(w32,      2, 1,  32, 4, 1, 1, 1, false, true,  2)  \
  X(w256,     2, 1, 256, 4, 2, 1, 2, false, true,  1)
// Tokens across for many rows, which seldom are a multiple of 64: of some width or other a few
// tiles have little left over. 128 rows of the weight, two warpgroups on one tile.
#define TILELACE_GEMM_ACROSS(X)                      \
  X(w152,     2, 1, 152, 6, 2, 1, 1, false, true, 1) \
  X(w168,     2, 1, 168, 5, 2, 1, 2, false, true, 1) \
  X(w200,     2, 1, 200, 5, 2, 1, 1, false, true, 1) \
  X(w216,     2, 1, 216, 4, 2, 1, 2, false, true, 1) \
  X(w232,     2, 1, 232, 4, 2, 1, 2, false, true, 1)

// The same with 256 rows of the weight.
#define TILELACE_GEMM_TALL_ACROSS(X)                 \
  X(y104_1x2, 2, 2, 104, 4, 1, 2, 2, false, true, 1) \
  X(y112,     2, 2, 112, 4, 2, 1, 2, false, true, 1) \
  X(y136_1x2, 2, 2, 136, 4, 1, 2, 1, false, true, 1) \
  X(y152_1x2, 2, 2, 152, 4, 1, 2, 1, false, true, 1) \
  X(y168_1x2, 2, 2, 168, 3, 1, 2, 2, false, true, 1)

// The same with 128 rows of the weight a warpgroup, in turns.
#define TILELACE_GEMM_PINGPONG_ACROSS(X)             \
  X(q104,     2, 2, 104, 7, 2, 1, 1, true,  true, 1) \
  X(q136,     2, 2, 136, 6, 2, 1, 1, true,  true, 1) \
  X(q160,     2, 2, 160, 5, 2, 1, 2, true,  true, 1) \
  X(q184,     2, 2, 184, 5, 2, 1, 1, true,  true, 1)
// clang-format on

#define TILELACE_GEMM_TILES(X) \
  TILELACE_GEMM_COOPERATIVE(X) \
  TILELACE_GEMM_PINGPONG(X)    \
  TILELACE_GEMM_TALL(X)        \
  TILELACE_GEMM_TALL_ALONE(X)  \
  TILELACE_GEMM_NARROW(X)      \
  TILELACE_GEMM_SWAPPED(X)     \
  TILELACE_GEMM_ACROSS(X)      \
  TILELACE_GEMM_TALL_ACROSS(X) \
  TILELACE_GEMM_PINGPONG_ACROSS(X)

#define TILELACE_GEMM_TILE(name, ...) GemmTile{#name, __VA_ARGS__},
inline constexpr GemmTile kGemmTiles[] = {TILELACE_GEMM_TILES(TILELACE_GEMM_TILE)};
#undef TILELACE_GEMM_TILE

}  // namespace tilelace::plan
