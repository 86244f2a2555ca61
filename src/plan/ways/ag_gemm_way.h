// SPDX-License-Identifier: Apache-2.0
// ag_gemm on GPUs: which product, how its rows are cut, who moves them.
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
  GemmPlan gemm;  ///< of the widest weight, for each; path medium: on the rows of the largest shard
  /// Tiles ignore the borders of shards; the own rows are staged too. Else every shard has its own
  /// tiles, the own shard is read in place and comes first, the others in order of arrival.
  bool whole = false;
  /// push, pull: copy engines, of whoever has the rows or who wants them; store: a kernel before
  /// the product.
  Transport transport = {};
  std::int64_t chunk_rows = 0;  ///< rows behind one flag
  /// By shard: how many shards are walked one after the other, the own one first. The others are
  /// walked together, which reads the weight once for all of them.
  int apart = 1;
  /// By shard: behind how many tiles of the walk each peer's shard, in order of arrival, joins
  /// those in front of it; the columns that it missed come last. Empty: `apart` says. Only of the
  /// first product, behind which all rows are here.
  std::vector<int> joins{};
  double predicted_us = 0;
  /// unfused: the products begin when all rows are there. medium: a product a shard, each waiting
  /// for its own rows.
  Path path = Path::fused;
  RouteKind route = RouteKind::mesh;  ///< ring (push): rows are handed on from rank to rank

  /// Whether copies wait for flags in the middle of their stream, which takes a kernel each.
  [[nodiscard]] bool relays() const { return row_of(transport).pulls || route == RouteKind::ring; }
  /// Multiprocessors that its products leave to whoever moves the rows: what finds no place beside
  /// products that wait for it would never end (docs/decisions/0012).
  [[nodiscard]] int left_free() const;
};

/// What plans with relays leave free: a wait is a kernel of one warp.
inline constexpr int kRelayMultiprocessors = 1;
/// What plans of transport nccl leave free: its communicator may have as many CTAs.
inline constexpr int kNcclMultiprocessors = 4;

/// Of tiles beside such copies: pairs always find their places together, so that the kernel does
/// not stand half placed before a wait that it waits for.
constexpr bool fits_beside_copies(const GemmTile& tile) { return tile.cluster() <= 2; }

/// Chunks of a shard that the flags of a slot have room for.
inline constexpr std::int64_t kMaxChunks = 1024;

/// A call's i-th product on m of its rows: of a weight, or of gate and up together (swiglu). As
/// many as the problem has outputs.
GemmProblem product_of(const Problem&, std::size_t i, std::int64_t m);

/// The one that plans are made for and that comes first: the widest, which hides most.
std::size_t widest_product(const Problem&);

/// A call's products in one: all weights side by side, each from a tile's first column on.
GemmProblem merged_product(const Problem&, const GemmTile&);
/// Whether the plan makes them in one kernel: whole, of few weights, by a tile that can.
bool is_merged(const Problem&, const AgGemmWay&);
/// How long its products take by themselves, one after the other or in one.
double products_us(const Problem&, const AgGemmWay&, const GemmMachine&);
/// Tiles of its first product.
int tiles_of(const AgGemmWay&, const Problem&);

/// All legal plans for a problem of Op::ag_gemm, fastest prediction first. Errors: usage (not an
/// ag_gemm, n or k not a multiple of 8, no rows).
std::vector<AgGemmWay> ag_gemm_candidates(const Problem&, const GemmMachine& = {});

/// Likewise those of transport nccl, which ag_gemm_candidates never takes by itself: it needs a
/// library and a communicator of its own. None on a share of fewer than 20 multiprocessors.
std::vector<AgGemmWay> ag_gemm_nccl_candidates(const Problem&, const GemmMachine& = {});

/// Of a call's tiles those of one shard, the `section`-th to arrive: path medium.
schedule::GatherOrder shard_order(const schedule::GatherOrder&, int section);

/// How long the rows of a problem travel when nothing else runs.
double gather_us(const Problem&, Transport, RouteKind, const Hardware&);

}  // namespace tilelace::plan
