// SPDX-License-Identifier: Apache-2.0
// Which tile shape, and how shared, for the GEMM on one device. Candidates come with a predicted
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
  /// n counts the columns of two products, gate and up: the result has half, silu(gate) * up.
  bool gated = false;

  [[nodiscard]] constexpr std::int64_t out_n() const { return gated ? n / 2 : n; }
  bool operator==(const GemmProblem&) const = default;
};

/// The device, as far as the predictions need it.
struct GemmMachine {
  int multiprocessors = 132;
  bool shared = false;     ///< others' kernels stand on the rest of the device (plan/gemm/share.h)
  int architecture = 0;    ///< its row (core/architecture.h): whose tiles, at what cost
  double memory_gbps = 0;  ///< data sheet's; 0: as that row has it

  /// With `ctas` places fewer, which others that stand one by one have.
  [[nodiscard]] constexpr GemmMachine leaving(int ctas) const {
    return {multiprocessors - (shared ? 2 : 1) * ctas, shared, architecture, memory_gbps};
  }
  bool operator==(const GemmMachine&) const = default;
};

struct GemmPlan {
  GemmTile tile;
  int workers = 0;      ///< clusters
  int split_tiles = 0;  ///< tiles whose k-steps are shared (the first ones)
  int rounds = 1;       ///< in which they are shared: 1 or 2
  int group = 1;
  bool along_cols = false;
  int wide = 1 << 20;  ///< blocks inside a group (schedule/gemm.h)
  int deep = 1;
  bool by_neighbours = false;  ///< workers are numbered by GPC, so that neighbours share operands
  bool early_weights = true;   ///< launched while the kernel before it ends; weights stream at once
  double predicted_us = 0;
  int share = 0;         ///< of a call beside others: the multiprocessors it may take; 0: all
  int architecture = 0;  ///< whose tile it is, and whose kernels it is launched with
};

std::ostream& operator<<(std::ostream&, const GemmPlan&);

/// As it may run on so many multiprocessors of a device beside calls that wait for peers on the
/// others: it does not begin under the kernel before it (while it waited it would take that many
/// once more), and it has no more CTAs than places (plan/gemm/share.h).
GemmPlan beside_others(GemmPlan, int multiprocessors);

/// The same `tiles` tiles, all of which the device holds at once, in two rounds: two workers share
/// each tile's k-steps, first those of the first half of the tiles. None: they cannot be cut so.
std::optional<GemmPlan> in_two_rounds(const GemmPlan&, std::int64_t tiles, std::int64_t k);

/// As printed: "c256 workers 66 split 40 group 8 early".
std::string describe(const GemmPlan&);

inline constexpr int kStep = 64;  ///< of k

/// Rows that one walk over the weight serves: what stays in L2.
constexpr std::int64_t kWalkRows = 2048;

/// The schedule of the plan, shared tiles in one round: only gemm_ar's order has two. m, n, k > 0.
schedule::GemmWork work_of(const GemmPlan&, const GemmProblem&);

/// Its walk where shards have tiles of their own: their tokens are rows, wherever a tile has them.
schedule::GemmOrder over_tokens(schedule::GemmOrder, const GemmTile&);

/// All legal plans, fastest prediction first. Error: usage, if m, n or k are not positive or out_n
/// or k is not a multiple of 8 (16 bytes), or no plan has a place on the machine.
std::vector<GemmPlan> gemm_candidates(const GemmProblem&, const GemmMachine& = {});

}  // namespace tilelace::plan
