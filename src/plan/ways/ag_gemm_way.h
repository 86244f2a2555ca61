// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: the GEMM, how its rows are cut, and what moves them.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/base/hardware.h"
#include "plan/gemm/gemm_plan.h"
#include "schedule/make_gather_order.h"
#include "tilelace/plan.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {

struct AgGemmWay {
  GemmPlan gemm;  ///< for the widest weight; path medium: for the rows of the largest shard
  /// Tiles ignore the borders of shards; own rows are staged too. If not, every shard has its own
  /// tiles; the own shard is read in place and comes first, the others in order of arrival.
  bool whole = false;
  /// `push`, `pull`: copy engines of the sender or the receiver; `store`: idle warps of the GEMM
  /// kernel; `nccl`: NCCL.
  Transport transport = {};
  std::int64_t chunk_rows = 0;  ///< rows per flag
  /// By shard: how many shards are walked one after the other, the own one first. The others are
  /// walked together, which reads the weight only once.
  int apart = 1;
  /// By shard: joins[i] is the number of tiles after which the i-th arriving shard joins the walk
  /// of those before it; the columns that it missed come last. Empty: `apart` holds. Only for the
  /// first GEMM; after it all rows are here.
  std::vector<int> joins{};
  double predicted_us = 0;
  /// `unfused`: GEMMs begin when all rows are here. `medium`: one GEMM per shard, each waiting for
  /// its own rows.
  Path path = Path::fused;
  RouteKind route = RouteKind::mesh;  ///< ring (push): rows are passed from rank to rank

  /// Whether copies wait for flags in the middle of their stream, which takes a kernel each.
  [[nodiscard]] bool relays() const { return row_of(transport).pulls || route == RouteKind::ring; }
  /// SMs that its GEMMs leave to the kernels that move rows: one that finds no SM beside GEMMs that
  /// wait for it would never end (docs/decisions/0012).
  [[nodiscard]] int left_free() const;
};

/// SMs that plans with relays leave free: a wait is a kernel of one warp.
inline constexpr int kRelayMultiprocessors = 1;
/// SMs that plans of transport nccl leave free: the most CTAs of its communicator.
inline constexpr int kNcclMultiprocessors = 4;

/// At most two CTAs per cluster: a pair is always scheduled together, so the kernel is never half
/// resident while it waits for a copy that needs one of its SMs.
constexpr bool fits_beside_copies(const GemmTile& tile) { return tile.cluster() <= 2; }

/// The most chunks per shard: a slot has flags for them.
inline constexpr std::int64_t kMaxChunks = 1024;

/// A call's i-th GEMM on m of its rows: with one weight, or with gate and up together (swiglu). One
/// for each output.
GemmProblem product_of(const Problem&, std::size_t i, std::int64_t m);

/// The GEMM that plans are made for and that comes first: the widest, which overlaps most.
std::size_t widest_product(const Problem&);

/// All GEMMs of a call as one: weights side by side, each beginning at a tile's first column.
GemmProblem merged_product(const Problem&, const GemmTile&);
/// Whether the plan runs them as one kernel: whole, few weights, and a tile that can.
bool is_merged(const Problem&, const AgGemmWay&);
/// Time of its GEMMs alone, one after the other or as one.
double products_us(const Problem&, const AgGemmWay&, const GemmMachine&);
/// Tiles of its first GEMM.
int tiles_of(const AgGemmWay&, const Problem&);

/// All possible plans for a problem of Op::ag_gemm, fastest prediction first. Errors: usage (not an
/// ag_gemm, n or k not a multiple of 8, no rows).
std::vector<AgGemmWay> ag_gemm_candidates(const Problem&, const GemmMachine& = {});

/// The same for transport nccl, which is never chosen unasked: it needs libnccl and a communicator
/// of its own. None on a share of fewer than 20 SMs.
std::vector<AgGemmWay> ag_gemm_nccl_candidates(const Problem&, const GemmMachine& = {});

/// Path medium: the tiles of the `section`-th shard to arrive.
schedule::GatherOrder shard_order(const schedule::GatherOrder&, int section);

/// Time in which a problem's rows travel if nothing else runs.
double gather_us(const Problem&, Transport, RouteKind, const Hardware&);

}  // namespace tilelace::plan
