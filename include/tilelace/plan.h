// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilelace/choices.h"  // IWYU pragma: export
#include "tilelace/dtype.h"

namespace tilelace {

namespace plan {
struct KernelChoice;
class TuningTable;
}  // namespace plan

/// What is asked for; equal on every rank of the group (only `rows` says how ranks differ).
/// ag_gemm: a[m_r, k] on every rank, weights [n_i, k] -> out_i [m, n_i].
/// gemm_rs: x[m, k], weight [n, k] -> out [m_r, n].  gemm_ar: the same -> out [m, n].
/// n and k are this rank's extents (the unsharded product has n*ranks columns, or k*ranks terms).
struct Problem {
  Op op{};             ///< what is computed
  int ranks = 1;       ///< of the group
  std::int64_t m = 0;  ///< rows of the gathered / partial operand; in prepare: the largest
  /// Columns of each weight; gemm_rs and gemm_ar: exactly one. Of an op without weights: k.
  std::vector<std::int64_t> n;
  std::int64_t k = 0;  ///< terms of this rank's product: columns of its operand
  DType dtype{};       ///< of every tensor
  bool bias = false;   ///< a bias is added, one for each weight
  Activation activation = Activation::none;  ///< applied before the one rounding
  bool return_gathered = false;              ///< ag_gemm: also deliver the gathered a [m, k]
  /// Rows of each rank's shard; empty: m split evenly, remainder first.
  std::vector<std::int64_t> rows = {};
  bool residual = false;  ///< gemm_rs, gemm_ar: a matrix like `out` is added to the sum

  bool operator==(const Problem&) const = default;
  /// Columns of all weights together. Errors: none.
  [[nodiscard]] std::int64_t total_n() const;
  /// Columns of output i (swiglu has one output as wide as one weight). Errors: std::out_of_range.
  [[nodiscard]] std::int64_t out_n(std::size_t i) const;
  /// Number of results: one for each weight; swiglu: one. Errors: none.
  [[nodiscard]] std::size_t outputs() const;
};

/// GPU ranks: whether the switch may be used (transport multimem): `usable`, or what is missing.
/// `not_asked`: the communicator's option. `not_allowed`: TILELACE_MULTICAST=1 in the environment.
/// `not_supported`: the device's support.
enum class Multicast : std::uint8_t { not_asked, not_allowed, not_supported, usable };

/// What the plan may count on.
struct Machine {
  int workers = 1;                             ///< compute workers a rank
  int local_ranks = 0;                         ///< ranks of one node; 0: all
  double link_bytes_per_s = 0;                 ///< per rank and direction; 0: shared memory
  double link_latency_s = 0;                   ///< of each transfer
  double rank_flops_per_s = 30e9;              ///< what one rank's workers reach together
  Device device = Device::cpu;                 ///< cuda: a machine of GPUs
  int multiprocessors = 0;                     ///< cuda: of each rank's GPU, that products may fill
  bool shared_device = false;                  ///< cuda: other communicators have the rest of it
  Multicast multicast = Multicast::not_asked;  ///< cuda
  /// cuda: of the GPUs, by its row in the table of those that there are kernels for
  /// (`tilelace plan --help` has their names in order); 0: the first.
  int architecture = 0;
  double memory_bytes_per_s = 0;  ///< cuda: of a GPU's memory, by clock and bus; 0: not known
  /// cuda: plans that were measured on such a machine (read_tuning); null: predictions alone.
  std::shared_ptr<const plan::TuningTable> tuning = nullptr;

  bool operator==(const Machine&) const = default;
};

/// Choices that override the planner; empty ones are left to it.
struct PlanOptions {
  std::optional<Path> path;            ///< fused, medium or unfused
  std::optional<RouteKind> route;      ///< who sends to whom
  std::optional<Transport> transport;  ///< who moves bytes
  /// tile_m, tile_n: rows and columns of a worker's tile; blocks: gemm_ar on CPU ranks,
  /// super-blocks.
  std::optional<int> tile_m, tile_n, blocks;
  std::optional<std::int64_t> chunk_rows;  ///< rows of one transfer
  std::optional<bool> straddle;            ///< tiles may cross the borders of shards
  std::optional<DType> partials;   ///< type of the partial sums on the wire; CPU ranks: also fp32
  std::optional<int> local_ranks;  ///< two_level: ranks of one node (divides the group)

  bool operator==(const PlanOptions&) const = default;
};

/// Every choice made before a call, as a printable value; equal on every rank.
/// On GPU ranks a worker is a cluster of CTAs and tile_m x tile_n is what it computes (swiglu: half
/// of tile_n is gate's, half up's); `push` and `pull` of ag_gemm are copy engines; `store` is idle
/// warps of the product or, in sums, the summing kernel, which under `pull` reads from all; `pull`
/// of a fused gemm_ar is warps of the product that read finished tiles of all ranks, `multimem` the
/// same by the switch, which adds.
/// Unfused: products wait for all rows, or go first.
struct Plan {
  Op op{};                            ///< what is computed
  Path path = Path::fused;            ///< one schedule, a GEMM per shard, or one after the other
  RouteKind route = RouteKind::mesh;  ///< who sends to whom
  int local_ranks = 0;                ///< two_level only: ranks of one node
  Transport transport = {};           ///< who moves bytes
  int tile_m = 128;                   ///< rows that a worker computes at a time
  int tile_n = 256;                   ///< columns that a worker computes at a time
  std::int64_t chunk_rows = 128;      ///< rows that one transfer moves; independent of tile_m
  int blocks = 1;                     ///< gemm_ar on CPU ranks: row super-blocks
  int workers = 1;                    ///< CPU ranks: compute threads; GPUs: clusters of CTAs
  /// Tiles may cross shard borders; they then come last (AG) or first (RS). gemm_rs on GPU ranks: a
  /// cluster's CTAs have tiles of two shards.
  bool straddle = false;
  DType partials{};                   ///< gemm_rs, gemm_ar: type of the partial sums on the wire
  std::int64_t staging_bytes = 0;     ///< bytes of one slot of the staging buffer on each rank
  std::string staging_formula;        ///< how staging_bytes comes about
  std::string reason;                 ///< why this plan
  std::vector<std::string> rejected;  ///< candidates that were not taken, each with its reason
  /// GPU ranks, where there is a product to run: what its kernels are launched with, opaque. It is
  /// printed with the plan (docs/plans.md).
  std::shared_ptr<const plan::KernelChoice> kernel;

  /// Kernels are compared by what they are launched with.
  bool operator==(const Plan&) const;
};

/// A hash, equal where the values are. Errors: none.
std::size_t hash_value(const Problem&);
/// The same of options. Errors: none.
std::size_t hash_value(const PlanOptions&);

/// Prints a problem on one line, as `tilelace plan` does. Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Problem&);
/// Prints a machine on one line. Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Machine&);
/// Prints a plan on one line (docs/plans.md). Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Plan&);

/// This machine as CPU ranks of one process or host see it; 0 workers: cores / ranks, at least 1.
/// Local. The speed is a round figure for the cost model, not a measurement. Errors: usage (ranks
/// outside 1..64).
Machine cpu_machine(int ranks, int workers, double link_bytes_per_s = 0, double link_latency_s = 0);

/// A group of H200s, one a rank, that reach each other over NVLink: what GPU ranks plan with.
/// Local; needs no GPU. The costs behind it were fitted on that machine (docs/decisions/0005,
/// 0006). Errors: none.
Machine cuda_machine(int multiprocessors = 132);

/// A table of measured plans, as `tilelace tune` writes it (docs/tuning.md). Local. Where it has a
/// row for a problem, or one near it, make_plan takes that; its times are of one kind of GPU, and
/// it is not used on another, nor where kernels have changed since. Errors: usage (no such file, no
/// table), which name the file and what is wrong in it.
std::shared_ptr<const plan::TuningTable> read_tuning(const std::string& file);

/// The plan of a call. Local; touches no memory and no peer.
/// On a machine of GPUs: bf16, fp16, n and k multiples of 8, at most 8 ranks, over the mesh, fused
/// and unfused; ag_gemm: push, pull, store, nccl (if asked), ring, medium; sums: store, pull and,
/// of few rows, push, partials of the operands' type; gemm_rs, only where asked for: medium (push),
/// unfused over the ring (store) or with additions at the owner (add), fused with tiles that
/// straddle; gemm_ar also pull, fused; only where asked for and where the machine has it: multimem.
/// Errors: usage, when the problem is malformed, an option is not legal for it, or GPU ranks do not
/// have it (the text says why, and what there is).
Plan make_plan(const Problem&, const Machine&, const PlanOptions& = {});

}  // namespace tilelace
