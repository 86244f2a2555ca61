// SPDX-License-Identifier: Apache-2.0
// Choosing tile shape and work distribution for the GEMM on one device. Candidates have a predicted
// time (plan/gemm/gemm_cost.h).
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "plan/gemm_tiles.h"
#include "schedule/gemm.h"
#include "tilelace/dtype.h"

namespace tilelace::plan {

/// out[m, n] = a[m, k] * w[n, k]^T on one device.
struct GemmProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype{};
  /// n counts the columns of gate and up together: the result has half of them, silu(gate) * up.
  bool gated = false;

  [[nodiscard]] constexpr std::int64_t out_n() const { return gated ? n / 2 : n; }
  bool operator==(const GemmProblem&) const = default;
};

/// What predictions need to know of the device.
struct GemmMachine {
  int multiprocessors = 132;
  bool shared = false;     ///< other communicators use the other SMs (plan/gemm/share.h)
  int architecture = 0;    ///< row in core/architecture.h: whose tiles and figures
  double memory_gbps = 0;  ///< from the data sheet; 0: the architecture's value

  /// This machine less the SMs of `ctas` CTAs of other kernels; on a share, less a pair for each.
  [[nodiscard]] constexpr GemmMachine leaving(int ctas) const {
    return {multiprocessors - (shared ? 2 : 1) * ctas, shared, architecture, memory_gbps};
  }
  bool operator==(const GemmMachine&) const = default;
};

struct GemmPlan {
  GemmTile tile;
  int workers = 0;      ///< clusters
  int split_tiles = 0;  ///< tiles whose k-steps are shared (the first ones)
  int rounds = 1;       ///< rounds in which they are shared: 1 or 2
  int group = 1;
  bool along_cols = false;
  int wide = 1 << 20;  ///< blocks inside a group (schedule/gemm.h)
  int deep = 1;
  bool by_neighbours = false;  ///< workers are numbered by GPC, so that neighbours share operands
  bool early_weights = true;   ///< programmatic dependent launch; weights stream at once
  double predicted_us = 0;
  int share = 0;         ///< on a share of the device: the SMs it may take; 0: all
  int architecture = 0;  ///< whose tile and kernels
};

std::ostream& operator<<(std::ostream&, const GemmPlan&);

/// Restricts a plan to `multiprocessors` SMs where other communicators may have waiting kernels on
/// the rest: no early launch (it would hold its SMs twice), and no more CTAs than the share has
/// places for (plan/gemm/share.h).
GemmPlan beside_others(GemmPlan, int multiprocessors);

/// The plan for `tiles` tiles, which the device holds at once, in two rounds: two workers share
/// each tile's k-steps, first those of the first half of the tiles. None if they cannot be cut so.
std::optional<GemmPlan> in_two_rounds(const GemmPlan&, std::int64_t tiles, std::int64_t k);

/// As printed: "c256 workers 66 split 40 group 8 early".
std::string describe(const GemmPlan&);

inline constexpr int kStep = 64;  ///< of k

/// Rows that one walk over the weight covers: what stays in L2.
constexpr std::int64_t kWalkRows = 2048;

/// The plan's schedule, with shared tiles in one round: only gemm_ar has two. m, n, k > 0.
schedule::GemmWork work_of(const GemmPlan&, const GemmProblem&);

/// The walk with tokens as rows even if the tile has tokens across: for shards with own tiles.
schedule::GemmOrder over_tokens(schedule::GemmOrder, const GemmTile&);

/// All possible plans, fastest prediction first. Errors: usage, if m, n or k are not positive,
/// out_n or k is not a multiple of 8 (16 bytes), or no plan fits the machine.
std::vector<GemmPlan> gemm_candidates(const GemmProblem&, const GemmMachine& = {});

}  // namespace tilelace::plan
