// SPDX-License-Identifier: Apache-2.0
// Plans of ag_gemm on GPUs: the GEMM, how its rows are cut, and what moves the rows.
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
  GemmPlan gemm;  ///< plan for the widest weight and, with path medium, for the largest shard
  /// true ("whole"): tiles ignore the borders of shards, and own rows are copied to staging, too.
  /// false ("by shard"): every shard has its own tiles. The own shard comes first and is read in
  /// place; the peers' shards follow in order of arrival.
  bool whole = false;
  /// What moves rows. `push`: copy engines of the sender; `pull`: copy engines of the receiver;
  /// `store`: threads of the GEMM kernel (unfused: an exchange, gather_exchange.h); `nccl`:
  /// NCCL.
  Transport transport = {};
  std::int64_t chunk_rows = 0;  ///< rows per flag
  /// By shard: number of shards that are walked one after the other, beginning with the own shard.
  /// Later shards are walked together, so that the weight is read only once for all of them.
  int apart = 1;
  /// By shard: after joins[i] tiles, the i-th shard that arrives (i from 0) joins the walk over the
  /// own and earlier shards; the columns that it missed come last. Empty: see `apart`. Used only in
  /// a call's first GEMM, since all rows have arrived when later GEMMs begin.
  std::vector<int> joins{};
  double predicted_us = 0;
  /// `unfused`: GEMMs begin when all rows have arrived. `medium`: one GEMM per shard, each of which
  /// waits only for that shard.
  Path path = Path::fused;
  RouteKind route = RouteKind::mesh;  ///< ring (push only): rows are passed from rank to rank
  bool lines = false;  ///< an exchange's; true: flags are in the data; false: a flag per chunk

  /// Whether the stream of copies also contains waits for flags. Each such wait is a kernel.
  [[nodiscard]] bool relays() const { return row_of(transport).pulls || route == RouteKind::ring; }
  /// Whether workers share k-steps of the own shard's first tiles, before peers' rows are there.
  [[nodiscard]] bool shares_by_shard() const { return !whole && gemm.split_tiles > 0; }
  /// SMs that the GEMMs leave free for the kernels that move rows. Without a free SM such a kernel
  /// could not start while the GEMMs wait for it, and the call would never end
  /// (docs/decisions/0012).
  [[nodiscard]] int left_free() const;
};

/// SMs that plans with relays() leave free for the waiting kernels, which have one warp each.
inline constexpr int kRelayMultiprocessors = 1;
/// SMs that plans of transport nccl leave free, one for each CTA that NCCL's kernels may have.
inline constexpr int kNcclMultiprocessors = 4;

/// Whether clusters have at most two CTAs. Alone on a device, such a GEMM is always resident as a
/// whole. A GEMM that is only partly resident would hold up copies that it waits for.
constexpr bool fits_beside_copies(const GemmTile& tile) { return tile.cluster() <= 2; }

/// The most chunks per shard that a slot has flags for.
inline constexpr std::int64_t kMaxChunks = 1024;

/// The GEMM of a call's i-th output, on m rows. It has one weight or, with swiglu, the weights of
/// gate and up together.
GemmProblem product_of(const Problem&, std::size_t i, std::int64_t m);

/// Index of the widest GEMM. It runs first, since it overlaps most, and plans are made for it.
std::size_t widest_product(const Problem&);

/// All GEMMs of a call as one GEMM, on m rows. Its weights are side by side and begin at borders of
/// tiles.
GemmProblem merged_product(const Problem&, const GemmTile&, std::int64_t m);
/// Whether plans with this tile run all GEMMs as one kernel (medium: one a shard): they do if the
/// call has two to kMostWeights GEMMs, and the tile takes several weights (can_merge).
bool is_merged(const Problem&, const GemmTile&);
/// Predicted time of all GEMMs of the plan if nothing else runs.
double products_us(const Problem&, const AgGemmWay&, const GemmMachine&);
/// Number of tiles of the plan's first GEMM.
int tiles_of(const AgGemmWay&, const Problem&);

/// All possible plans for a problem of Op::ag_gemm, fastest prediction first. Errors: usage (not an
/// ag_gemm, n or k not a multiple of 8, no rows).
std::vector<AgGemmWay> ag_gemm_candidates(const Problem&, const GemmMachine& = {});

/// The same for transport nccl, which is used only on request, since it needs libnccl and an NCCL
/// communicator. Empty for fewer than 20 SMs (24 on a share of a GPU).
std::vector<AgGemmWay> ag_gemm_nccl_candidates(const Problem&, const GemmMachine& = {});

/// Path medium: the order of tiles in the `section`-th shard that arrives (0: the own shard).
schedule::GatherOrder shard_order(const schedule::GatherOrder&, int section);

/// Predicted time until a problem's rows have reached all ranks, if nothing else runs.
double gather_us(const Problem&, Transport, RouteKind, const Hardware&);

}  // namespace tilelace::plan
