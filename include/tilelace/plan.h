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

/// What a call computes; equal on every rank of the group (`rows` lists the shards' sizes).
/// ag_gemm: a[m_r, k] on every rank, weights [n_i, k] -> out_i [m, n_i].
/// gemm_rs: x[m, k], weight [n, k] -> out [m_r, n].  gemm_ar: the same inputs -> out [m, n].
/// n and k are this rank's extents: the unsharded product has n * ranks columns (ag_gemm), or sums
/// over k * ranks terms (gemm_rs, gemm_ar).
struct Problem {
  Op op{};             ///< what is computed
  int ranks = 1;       ///< number of ranks in the group
  std::int64_t m = 0;  ///< rows of the gathered a, or of x; in prepare: the largest m of any call
  /// Columns of each weight's product (gemm_rs and gemm_ar: one weight). Ops without weights: {k}.
  std::vector<std::int64_t> n;
  std::int64_t k = 0;                        ///< inner extent of the product: columns of a or x
  DType dtype{};                             ///< type of every tensor
  bool bias = false;                         ///< a bias is added, one for each weight
  Activation activation = Activation::none;  ///< applied before the result is rounded
  bool return_gathered = false;              ///< ag_gemm: the gathered a [m, k] is also a result
  /// Rows of each rank's shard; empty: an even split, with the remainder on the first ranks.
  std::vector<std::int64_t> rows = {};
  bool residual = false;  ///< gemm_rs, gemm_ar: a matrix of the shape of `out` is added to the sum

  bool operator==(const Problem&) const = default;
  /// Sum of all entries of n. Errors: none.
  [[nodiscard]] std::int64_t total_n() const;
  /// Columns of output i (swiglu has one output, as wide as one weight). Errors: std::out_of_range.
  [[nodiscard]] std::int64_t out_n(std::size_t i) const;
  /// Number of results: one for each weight; swiglu: one. Errors: none.
  [[nodiscard]] std::size_t outputs() const;
};

/// GPU ranks: whether transport multimem is `usable`, or why not. `not_asked`: the communicator was
/// made without option multicast. `not_allowed`: TILELACE_MULTICAST=1 is not in the environment.
/// `not_supported`: the device cannot do multicast.
enum class Multicast : std::uint8_t { not_asked, not_allowed, not_supported, usable };

/// The machine that plans are made for.
struct Machine {
  int workers = 1;                             ///< compute workers per rank
  int local_ranks = 0;                         ///< ranks per node; 0: all
  double link_bytes_per_s = 0;                 ///< bandwidth per direction; 0: shared memory
  double link_latency_s = 0;                   ///< latency of a transfer
  double rank_flops_per_s = 30e9;              ///< speed of all workers of a rank together
  Device device = Device::cpu;                 ///< cuda: a machine of GPUs
  int multiprocessors = 0;                     ///< cuda: SMs of each rank's GPU that GEMMs may use
  bool shared_device = false;                  ///< cuda: other communicators use the other SMs
  Multicast multicast = Multicast::not_asked;  ///< cuda: whether transport multimem can be used
  /// cuda: the GPUs' architecture, as an index into the table of supported architectures, which
  /// `tilelace plan --help` lists in order; 0: the first.
  int architecture = 0;
  double memory_bytes_per_s = 0;  ///< cuda: peak rate of a GPU's memory; 0: not known
  bool cublas = false;            ///< cuda: libcublasLt can be loaded, for GEMMs before sums
  /// cuda: plans that were measured on this kind of machine (read_tuning); null: only predictions.
  std::shared_ptr<const plan::TuningTable> tuning = nullptr;

  bool operator==(const Machine&) const = default;
};

/// Choices that override the planner. Empty: the planner chooses.
struct PlanOptions {
  std::optional<Path> path;            ///< fused, medium or unfused
  std::optional<RouteKind> route;      ///< who sends to whom
  std::optional<Transport> transport;  ///< who moves bytes
  /// tile_m, tile_n: rows and columns of a worker's tile. blocks: gemm_ar on CPU ranks splits the
  /// rows into this number of blocks, which are reduced one after the other.
  std::optional<int> tile_m, tile_n, blocks;
  std::optional<std::int64_t> chunk_rows;  ///< rows of one transfer
  std::optional<bool> straddle;            ///< tiles may cross the borders of shards
  std::optional<DType> partials;   ///< type in which partial sums are sent; fp32: CPU ranks only
  std::optional<int> local_ranks;  ///< two_level: ranks per node, a divisor of the group's size

  bool operator==(const PlanOptions&) const = default;
};

/// Parses choices as `tilelace plan --help` lists them: "path=unfused,transport=pull"; ""
/// chooses nothing. Error texts begin with `what`. Local. Errors: usage (an unknown key or value).
PlanOptions parse_plan_options(const std::string& what, const std::string& text);

/// All choices of a call, as a printable value; equal on every rank. On GPU ranks a worker is a
/// cluster of CTAs, and tile_m x tile_n is its tile (swiglu: half of tile_n is gate, half is up).
/// Transports on GPU ranks:
///   ag_gemm   `push`, `pull`: copy engines; `store`: threads of the GEMM kernel
///   sums      `store`: the GEMM or summing kernel writes to peers; `push`: kernels of a collective
///             (medium: copy engines) send partial sums; `pull`: the summing kernel (fused gemm_ar:
///             warps of the GEMM) reads all ranks' partial sums; `multimem`: the NVLink switch adds
/// If unfused, the GEMM waits for all rows (ag_gemm) or runs before the sums. A GEMM before sums
/// runs in cuBLASLt if cuBLASLt is measured or predicted to be faster.
struct Plan {
  Op op{};                            ///< what is computed
  Path path = Path::fused;            ///< whether and how GEMM and transfers overlap
  RouteKind route = RouteKind::mesh;  ///< who sends to whom
  int local_ranks = 0;                ///< two_level only: ranks per node
  Transport transport = {};           ///< who moves bytes
  int tile_m = 128;                   ///< rows that a worker computes at a time
  int tile_n = 256;                   ///< columns that a worker computes at a time
  std::int64_t chunk_rows = 128;      ///< rows that one transfer moves, whatever tile_m is
  int blocks = 1;                     ///< gemm_ar on CPU ranks: number of row blocks
  int workers = 1;                    ///< CPU ranks: compute threads; GPUs: clusters of CTAs
  /// Whether tiles may cross shard borders. Such tiles are computed last (ag_gemm) or first
  /// (gemm_rs). gemm_rs on GPU ranks: the two CTAs of a cluster have tiles of two shards.
  bool straddle = false;
  DType partials{};                   ///< gemm_rs, gemm_ar: type in which partial sums are sent
  std::int64_t staging_bytes = 0;     ///< bytes of staging per rank and slot; there are two slots
  std::string staging_formula;        ///< how staging_bytes is computed
  std::string reason;                 ///< why the planner chose this plan
  std::vector<std::string> rejected;  ///< other candidates, each with the reason against it
  /// GPU ranks: launch parameters of the kernels, opaque; null if no kernel runs. They are printed
  /// with the plan (docs/plans.md).
  std::shared_ptr<const plan::KernelChoice> kernel;

  /// Compares launch parameters by value.
  bool operator==(const Plan&) const;
};

/// A hash; equal values have equal hashes. Errors: none.
std::size_t hash_value(const Problem&);
/// A hash of plan options. Errors: none.
std::size_t hash_value(const PlanOptions&);

/// Prints a problem on one line, as `tilelace plan` does. Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Problem&);
/// Prints a machine on one line. Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Machine&);
/// Prints a plan on one line (docs/plans.md). Errors: the stream's.
std::ostream& operator<<(std::ostream&, const Plan&);

/// Describes this host for CPU ranks; 0 workers mean cores / ranks, at least 1. Local. The speed
/// is a round number for the cost model, not a measurement. Errors: usage (ranks outside 1..64).
Machine cpu_machine(int ranks, int workers, double link_bytes_per_s = 0, double link_latency_s = 0);

/// The machine that plans of GPU ranks assume by default: H200s with NVLink, one per rank. Local;
/// needs no GPU. Costs were fitted on H200s (docs/decisions/0005, 0006). Errors: none.
Machine cuda_machine(int multiprocessors = 132);

/// Reads a table of measured plans that `tilelace tune` wrote (docs/tuning.md). Local. make_plan
/// uses the row of the problem or of a similar one. A table is valid for one kind of GPU, and
/// its rows for the kernels that they were timed with; others are ignored. Errors: usage (no file,
/// not a table); the text names the file and the fault.
std::shared_ptr<const plan::TuningTable> read_tuning(const std::string& file);

/// Plans a call. Local: no peer takes part, and no tensor is needed.
/// GPU machines: bf16 and fp16, n and k multiples of 8, at most 8 ranks. Possible plans there
/// (those after "asked:" only if PlanOptions ask for them):
///   ag_gemm  mesh or ring; fused, medium, unfused; push, pull, store; asked: nccl
///   gemm_rs  mesh; fused and unfused; store, pull, push (few rows); asked: medium with push,
///            fused with straddle
///   gemm_ar  mesh; fused and unfused; store, pull, push (few rows); asked: multimem
/// Partial sums have the operands' type.
/// Errors: usage, if the problem is malformed or an option is not possible for it; the text says
/// why and what is possible.
Plan make_plan(const Problem&, const Machine&, const PlanOptions& = {});

}  // namespace tilelace
