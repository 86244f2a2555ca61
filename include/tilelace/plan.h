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
  Op op{};
  int ranks = 1;
  std::int64_t m = 0;  ///< rows of the gathered / partial operand; in prepare: the largest
  /// Columns of each weight; gemm_rs and gemm_ar: exactly one. Of an op without weights: k.
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  DType dtype{};
  bool bias = false;
  Activation activation = Activation::none;
  bool return_gathered = false;  ///< ag_gemm: also deliver the gathered a [m, k]
  /// Rows of each rank's shard; empty: m split evenly, remainder first.
  std::vector<std::int64_t> rows = {};
  bool residual = false;  ///< gemm_rs, gemm_ar: a matrix like `out` is added to the sum

  bool operator==(const Problem&) const = default;
  /// Columns of all weights together.
  [[nodiscard]] std::int64_t total_n() const;
  /// Columns of output i (swiglu has one output as wide as one weight).
  [[nodiscard]] std::int64_t out_n(std::size_t i) const;
  [[nodiscard]] std::size_t outputs() const;
};

/// GPU ranks: whether the switch may be used (transport multimem), or what is missing: the
/// communicator's option, TILELACE_MULTICAST=1 in the environment, the device's support.
enum class Multicast : std::uint8_t { not_asked, not_allowed, not_supported, usable };

/// What the plan may count on.
struct Machine {
  int workers = 1;              ///< compute workers a rank
  int local_ranks = 0;          ///< ranks of one node; 0: all
  double link_bytes_per_s = 0;  ///< per rank and direction; 0: shared memory
  double link_latency_s = 0;
  double rank_flops_per_s = 30e9;  ///< what one rank's workers reach together
  Device device = Device::cpu;
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
  std::optional<Path> path;
  std::optional<RouteKind> route;
  std::optional<Transport> transport;
  std::optional<int> tile_m, tile_n, blocks;
  std::optional<std::int64_t> chunk_rows;
  std::optional<bool> straddle;
  std::optional<DType> partials;
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
  Op op{};
  Path path = Path::fused;
  RouteKind route = RouteKind::mesh;
  int local_ranks = 0;  ///< two_level only: ranks of one node
  Transport transport = {};
  int tile_m = 128;
  int tile_n = 256;
  std::int64_t chunk_rows = 128;  ///< rows that one transfer moves; independent of tile_m
  int blocks = 1;                 ///< gemm_ar on CPU ranks: row super-blocks
  int workers = 1;
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

/// Equal where the values are.
std::size_t hash_value(const Problem&);
std::size_t hash_value(const PlanOptions&);

std::ostream& operator<<(std::ostream&, const Problem&);
std::ostream& operator<<(std::ostream&, const Machine&);
std::ostream& operator<<(std::ostream&, const Plan&);

/// This machine as CPU ranks of one process or host see it; 0 workers: cores / ranks, at least 1.
/// Local. The speed is a round figure for the cost model, not a measurement.
Machine cpu_machine(int ranks, int workers, double link_bytes_per_s = 0, double link_latency_s = 0);

/// A group of H200s, one a rank, that reach each other over NVLink: what GPU ranks plan with.
/// Local; needs no GPU. The costs behind it were fitted on that machine (docs/decisions/0005,
/// 0006).
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
