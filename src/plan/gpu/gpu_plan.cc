// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/gpu_plan.h"

#include <algorithm>
#include <limits>

#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/planners.h"
#include "plan/gpu/way_choice.h"
#include "tilelace/op_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// Kernels and plans count rows, columns and tiles in 32 bits: extents up to the end of the last
/// tile, and tiles as if all were of the finest kind.
constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostExtent = kMostTiles - 4095;
constexpr std::int64_t kLeastTileRows = 16;
constexpr std::int64_t kLeastTileCols = 8;
constexpr int kMostMultiprocessors = 4096;  ///< far more than a GPU has

/// Sizes in bytes then fit 64 bits, too.
void require_extents(const Problem& p) {
  const auto op = name_of(p.op);
  require(p.m <= kMostExtent, "{}: m on GPUs: got {}, expected at most {}", op, p.m, kMostExtent);
  require(p.k <= kMostExtent, "{}: k on GPUs: got {}, expected at most {}", op, p.k, kMostExtent);
  for (const auto n : p.n)
    require(n <= kMostExtent, "{}: n on GPUs: got {}, expected at most {}", op, n, kMostExtent);
  require(p.total_n() <= kMostExtent, "{}: n of all weights on GPUs: got {}, expected at most {}",
          op, p.total_n(), kMostExtent);
  const std::int64_t tiles =
      schedule::ceil_div(p.m, kLeastTileRows) * schedule::ceil_div(p.total_n(), kLeastTileCols);
  require(tiles <= kMostTiles,
          "{}: m {} x n {} on GPUs: got {} tiles of {}x{}, expected at most {}", op, p.m,
          p.total_n(), tiles, kLeastTileRows, kLeastTileCols, kMostTiles);
}

void require_gpu_problem(const Problem& p) {
  const auto op = name_of(p.op);
  if (!row_of(p.dtype).on_gpus)
    raise(ErrorKind::usage, "{}: dtype on GPUs: got {}, expected {}", op, name_of(p.dtype),
          names_of_gpu_dtypes());
  require(p.ranks <= schedule::kMaxGpuRanks, "{}: ranks on GPUs: got {}, expected at most {}", op,
          p.ranks, schedule::kMaxGpuRanks);
  const std::int64_t grain = grain_of(p.dtype);
  require(p.k % grain == 0, "{}: k on GPUs: got {}, expected a multiple of {} (16 bytes)", op, p.k,
          grain);
  for (const auto n : p.n)
    require(n % grain == 0, "{}: n on GPUs: got {}, expected a multiple of {} (16 bytes)", op, n,
            grain);
  require_extents(p);
}

void require_machine(const Problem& p, const Machine& m) {
  // A share, or a tile, may need two: gemm_candidates says so.
  require(m.multiprocessors >= 1 && m.multiprocessors <= kMostMultiprocessors,
          "{}: multiprocessors: got {}, expected 1 to {}", name_of(p.op), m.multiprocessors,
          kMostMultiprocessors);
  require(is_architecture(m.architecture),
          "{}: architecture: got number {}, expected 0 to {} (in this order: {})", name_of(p.op),
          m.architecture, kArchitectures.size() - 1, names_of_architectures());
}

/// Path and route go together on some ways only.
void require_way(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  const RouteKind route = o.route.value_or(RouteKind::mesh);
  const bool ring = row_of(p.op).gathers;
  require(route == RouteKind::mesh || (ring && route == RouteKind::ring),
          "{}: route on GPUs: got {}, expected mesh{}", op, name_of(route), ring ? " or ring" : "");
  require(!row_of(p.op).shares || o.path != Path::medium,
          "{}: path on GPUs: got medium, expected fused or unfused", op);
}

void require_options(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  require_way(p, o);
  require(o.path != Path::medium || o.route.value_or(RouteKind::mesh) == RouteKind::mesh,
          "{}: route on GPUs with path medium: got {}, expected mesh", op,
          name_of(o.route.value_or(RouteKind::mesh)));
  require(o.blocks.value_or(1) == 1, "{}: blocks on GPUs: got {}, expected 1", op, *o.blocks);
  require(!o.local_ranks,
          "{}: local_ranks on GPUs: got {}, expected none: GPU ranks are on one host", op,
          o.local_ranks.value_or(0));
  if (!o.chunk_rows) return;
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const Index least = std::max<Index>(1, schedule::ceil_div(split.max_rows(), kMaxChunks));
  require(*o.chunk_rows >= least && *o.chunk_rows <= kMostExtent,
          "{}: chunk_rows on GPUs: got {}, expected at least {} (up to {} chunks per shard) and at "
          "most {}",
          op, *o.chunk_rows, least, kMaxChunks, kMostExtent);
}

}  // namespace

Plan make_cuda_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  require_gpu_problem(p);
  require_machine(p, machine);
  require_options(p, options);
  return planner_of(p.op).make(p, machine, options);
}

GemmPlan gemm_alone(const Problem& p, std::size_t product, const Machine& machine) {
  return gemm_candidates(product_of(p, product, p.m), gemm_machine(machine)).front();
}

}  // namespace tilelace::plan

namespace tilelace {

Machine cuda_machine(int multiprocessors) {
  Machine m;
  m.device = Device::cuda;
  m.workers = m.multiprocessors = multiprocessors;
  const plan::Hardware& h = plan::hardware_of(m);
  m.link_bytes_per_s = h.push_gbps * 1e9;
  m.rank_flops_per_s = h.peak_tflops * h.efficiency * 1e12;
  m.memory_bytes_per_s = h.memory_gbps * 1e9;
  m.cublas = true;
  return m;
}

}  // namespace tilelace
