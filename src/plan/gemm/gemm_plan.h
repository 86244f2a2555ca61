// SPDX-License-Identifier: Apache-2.0
// Chooses the tile shape and the distribution of work for the GEMM on one device. Each candidate
// has a predicted time (plan/gemm/gemm_cost.h).
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
  /// true: n counts the columns of gate and up; the result, silu(gate) * up, has n / 2 columns.
  bool gated = false;

  [[nodiscard]] constexpr std::int64_t out_n() const { return gated ? n / 2 : n; }
  bool operator==(const GemmProblem&) const = default;
};

/// What predictions need to know about the device.
struct GemmMachine {
  int multiprocessors = 132;
  bool shared = false;     ///< whether other communicators use the device's other SMs (share.h)
  int architecture = 0;    ///< index in kArchitectures (core/architecture.h)
  double memory_gbps = 0;  ///< peak rate of the GPU's memory; 0: the architecture's value
  bool cublas = false;     ///< whether cuBLASLt is available

  /// This machine less the SMs of `ctas` CTAs of other kernels: one SM per CTA, or two if `shared`.
  [[nodiscard]] constexpr GemmMachine leaving(int ctas) const {
    return {multiprocessors - (shared ? 2 : 1) * ctas, shared, architecture, memory_gbps, cublas};
  }
  bool operator==(const GemmMachine&) const = default;
};

struct GemmPlan {
  GemmTile tile;
  int workers = 0;      ///< number of clusters; a cluster is one worker
  int split_tiles = 0;  ///< number of shared tiles at the start, whose k-steps workers share
  int rounds = 1;       ///< 1 or 2: rounds in which shared tiles are computed (schedule/gemm.h)
  int group = 1;
  bool along_cols = false;
  int wide = 1 << 20;  ///< blocks of `wide` x `deep` tiles are walked together (schedule/gemm.h)
  int deep = 1;
  bool by_neighbours = false;  ///< workers with consecutive numbers share a GPC and operands
  bool early_weights = true;   ///< weights load before the previous kernel ends (PDL)
  double predicted_us = 0;
  int share = 0;         ///< SMs of the device's share that the GEMM may use; 0: no share, all SMs
  int architecture = 0;  ///< index in kArchitectures

  /// CTAs of a kernel with this many tiles.
  [[nodiscard]] constexpr int ctas(std::int64_t tiles) const {
    const bool few = split_tiles == 0 && tiles < workers;
    return (few ? static_cast<int>(tiles) : workers) * tile.cluster();
  }
};

std::ostream& operator<<(std::ostream&, const GemmPlan&);

/// Restricts a plan to a share of `multiprocessors` SMs, since waiting kernels of other
/// communicators may occupy the other SMs. No kernel then launches early (two kernels would hold
/// SMs), and there are no more CTAs than the share has places for (plan/gemm/share.h).
GemmPlan beside_others(GemmPlan, int multiprocessors);

/// The plan of a product of m tokens by itself. If its tiles stand in one row, every order walks
/// them alike; then the plan gets the plainest order, so that equal plans have equal words.
GemmPlan plainly_walked(GemmPlan, std::int64_t m);
/// Whether that changes nothing.
bool is_plainly_walked(const GemmPlan&, std::int64_t m);

/// Whether schedules can count the shared k-steps of so many tiles (in 31 bits).
bool are_counted(std::int64_t tiles, std::int64_t k);

/// The plan in two rounds, for `tiles` tiles that all fit the device at once. Each round computes
/// half of the tiles; two workers share the k-steps of a tile. Empty if impossible.
std::optional<GemmPlan> in_two_rounds(const GemmPlan&, std::int64_t tiles, std::int64_t k);

/// The plan as text: "c256 workers 66 split 40 group 8 early".
std::string describe(const GemmPlan&);

inline constexpr int kStep = 64;  ///< elements of k in a k-step

/// Rows that one walk over the weight covers: as many as stay in L2.
constexpr std::int64_t kWalkRows = 2048;

/// The plan's schedule, with shared tiles in one round (only gemm_ar has two rounds). m, n, k > 0.
schedule::GemmWork work_of(const GemmPlan&, const GemmProblem&);

/// The walk with tokens as its rows, for orders by shard. If tile.swapped, exchanges rows and cols.
schedule::GemmOrder over_tokens(schedule::GemmOrder, const GemmTile&);

/// All possible plans of a product by itself, fastest prediction first. Errors: usage, if m, n or k
/// are not positive, out_n or k is not a multiple of 8 (16 bytes), or no plan fits the machine.
std::vector<GemmPlan> gemm_candidates(const GemmProblem&, const GemmMachine& = {});
/// The same for products that walk their tiles shard by shard, where walks differ that are alike
/// over a product by itself. Errors: as gemm_candidates.
std::vector<GemmPlan> candidates_by_shard(const GemmProblem&, const GemmMachine& = {});

}  // namespace tilelace::plan
