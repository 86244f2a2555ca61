// SPDX-License-Identifier: Apache-2.0
#include "plan/cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "core/check.h"
#include "plan/cuda_parts.h"
#include "plan/problem.h"
#include "plan/schedules.h"
#include "schedule/gather_order.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

constexpr double kLinkBytesPerS = 370e9;  // docs/decisions/0006
constexpr double kRankFlopsPerS = 700e12;
constexpr double kKernelUs = 3;  ///< one more kernel in a row, which no weights stream under

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
  require(p.m <= kMostExtent, "{}: m on GPUs, got {}, expected at most {}", op, p.m, kMostExtent);
  require(p.k <= kMostExtent, "{}: k on GPUs, got {}, expected at most {}", op, p.k, kMostExtent);
  for (const auto n : p.n)
    require(n <= kMostExtent, "{}: n on GPUs, got {}, expected at most {}", op, n, kMostExtent);
  require(p.total_n() <= kMostExtent, "{}: n of all weights on GPUs, got {}, expected at most {}",
          op, p.total_n(), kMostExtent);
  const std::int64_t tiles =
      schedule::ceil_div(p.m, kLeastTileRows) * schedule::ceil_div(p.total_n(), kLeastTileCols);
  require(tiles <= kMostTiles,
          "{}: m {} x n {} on GPUs, got {} tiles of {}x{}, expected at most {}", op, p.m,
          p.total_n(), tiles, kLeastTileRows, kLeastTileCols, kMostTiles);
}

void require_gpu_problem(const Problem& p) {
  const auto op = name_of(p.op);
  require(p.dtype != DType::fp32, "{}: dtype on GPUs, got fp32, expected bf16 or fp16", op);
  require(p.ranks <= schedule::kMaxSections, "{}: ranks on GPUs, got {}, expected at most {}", op,
          p.ranks, schedule::kMaxSections);
  require(p.k % 8 == 0, "{}: k on GPUs, got {}, expected a multiple of 8 (16 bytes)", op, p.k);
  for (const auto n : p.n)
    require(n % 8 == 0, "{}: n on GPUs, got {}, expected a multiple of 8 (16 bytes)", op, n);
  require_extents(p);
}

void require_machine(const Problem& p, const Machine& m) {
  // A share, or a tile, may need two: gemm_candidates says so.
  require(m.multiprocessors >= 1 && m.multiprocessors <= kMostMultiprocessors,
          "{}: multiprocessors, got {}, expected 1 to {}", name_of(p.op), m.multiprocessors,
          kMostMultiprocessors);
}

/// Path, route and transport go together on some ways only.
void require_way(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  const RouteKind route = o.route.value_or(RouteKind::mesh);
  const bool gathers = p.op == Op::ag_gemm;
  const bool scatters = p.op == Op::gemm_rs;
  require(route == RouteKind::mesh || (p.op != Op::gemm_ar && route == RouteKind::ring),
          "{}: route on GPUs, got {}, expected mesh{}", op, name_of(route),
          p.op != Op::gemm_ar ? " or ring" : "");
  require(gathers || scatters || o.path != Path::medium,
          "{}: path on GPUs, got medium, expected fused or unfused", op);
  if (!gathers || !o.transport) return;
  require(o.transport != Transport::add && o.transport != Transport::multimem,
          "{}: transport on GPUs, got {}, expected push, pull, store or nccl", op,
          name_of(*o.transport));
  require(route == RouteKind::mesh || o.transport == Transport::push,
          "{}: transport on GPUs over the ring, got {}, expected push", op, name_of(*o.transport));
  require(o.path != Path::medium || o.transport == Transport::push,
          "{}: transport on GPUs of path medium, got {}, expected push", op, name_of(*o.transport));
}

void require_options(const Problem& p, const PlanOptions& o) {
  const auto op = name_of(p.op);
  require_way(p, o);
  require(o.path != Path::medium || o.route.value_or(RouteKind::mesh) == RouteKind::mesh,
          "{}: route on GPUs of path medium, got {}, expected mesh", op,
          name_of(o.route.value_or(RouteKind::mesh)));
  require(o.blocks.value_or(1) == 1, "{}: blocks, got {}, expected 1 (only gemm_ar has them)", op,
          *o.blocks);
  require(!o.local_ranks, "{}: local_ranks on GPUs, got {}, expected none (one host)", op,
          o.local_ranks.value_or(0));
  if (!o.chunk_rows) return;
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const Index least = std::max<Index>(1, schedule::ceil_div(split.max_rows(), kMaxChunks));
  require(*o.chunk_rows >= least && *o.chunk_rows <= kMostExtent,
          "{}: chunk_rows on GPUs, got {}, expected at least {} ({} chunks a shard), "
          "at most {}",
          op, *o.chunk_rows, least, kMaxChunks, kMostExtent);
}

bool wanted(const AgGemmPlan& c, const PlanOptions& o) {
  return o.transport.value_or(c.transport) == c.transport && o.route.value_or(c.route) == c.route &&
         o.straddle.value_or(c.whole) == c.whole && plan::wanted(c.gemm.tile, o);
}

/// One after the other, made of the same parts: the rows travel in one piece.
AgGemmPlan unfused_of(const AgGemmPlan& fused, const Problem& p) {
  AgGemmPlan plan = fused;
  plan.path = Path::unfused;
  plan.joins.clear();
  plan.predicted_us = gather_us(p, plan.transport, plan.route) + kKernelUs + products_us(p, plan);
  return plan;
}

/// In what an unfused plan has coarser chunks than fused ones: rows then travel in one piece.
std::tuple<Transport, RouteKind, bool> way_of(const AgGemmPlan& c) {
  return {c.transport, c.route, c.whole};
}

std::vector<KernelWay> candidates_of(const Problem& p, const Machine& machine,
                                     const PlanOptions& o) {
  std::vector<KernelWay> all;
  std::map<std::tuple<Transport, RouteKind, bool>, Index> coarsest;
  auto overlapped = o.transport == Transport::nccl
                        ? ag_gemm_nccl_candidates(p, gemm_machine(machine))
                        : ag_gemm_candidates(p, gemm_machine(machine));
  // On a share such calls cannot be captured (docs/decisions/0012): only where they are asked for.
  const bool asked = o.transport == Transport::pull || o.route == RouteKind::ring;
  if (machine.shared_device && !asked)
    std::erase_if(overlapped, [](const AgGemmPlan& c) { return c.relays(); });
  for (const AgGemmPlan& c : overlapped) {
    Index& chunk = coarsest[way_of(c)];
    chunk = std::max(chunk, c.chunk_rows);
  }
  for (const AgGemmPlan& c : overlapped) {
    if (!wanted(c, o)) continue;
    if (o.path.value_or(c.path) == c.path) all.push_back(c);
    if (o.path.value_or(Path::unfused) == Path::unfused && c.path == Path::fused &&
        c.chunk_rows == coarsest[way_of(c)])
      all.push_back(unfused_of(c, p));
  }
  require(
      !all.empty(),
      "{}: plan on GPUs, got options (transport {}, straddle {}, tile {}x{}) that no plan "
      "meets, expected push, pull or nccl with straddle 0, or store (up to 1024 rows, not of path "
      "medium), and a compiled tile",
      name_of(p.op), o.transport ? name_of(*o.transport) : "any",
      o.straddle ? (*o.straddle ? "1" : "0") : "any", o.tile_m.value_or(0), o.tile_n.value_or(0));
  sort_by_time(all);
  if (o.chunk_rows)
    for (KernelWay& way : all) std::get<AgGemmPlan>(way).chunk_rows = *o.chunk_rows;
  return all;
}

/// What the prediction is made of.
std::string parts_of(const AgGemmPlan& c, const Problem& p) {
  const bool medium = c.path == Path::medium;
  std::string text = fmt::format(" (GEMM {:.1f}{}, gather {:.1f}", products_us(p, c),
                                 medium ? " a shard" : "", gather_us(p, c.transport, c.route));
  if (c.path == Path::unfused) text += ", one after the other";
  if (p.outputs() > 1)
    text += fmt::format(", {} weights {}", p.n.size(), is_merged(p, c) ? "in one" : "in turn");
  if (p.activation == Activation::swiglu) text += ", gate and up in one";
  return text + ")";
}

Plan make_gather_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  if (p.m == 0) return empty_plan(p, options, Path::fused, Transport::push);
  const std::vector<KernelWay> all = candidates_of(p, machine, options);
  return best_of(p, all, options, parts_of(std::get<AgGemmPlan>(all.front()), p));
}

}  // namespace

std::vector<KernelWay> every_gather_way(const Problem& p, const Machine& machine, bool nccl) {
  std::vector<KernelWay> all;
  for (const AgGemmPlan& c : nccl ? ag_gemm_nccl_candidates(p, gemm_machine(machine))
                                  : ag_gemm_candidates(p, gemm_machine(machine))) {
    all.emplace_back(c);
    if (c.path == Path::fused) all.emplace_back(unfused_of(c, p));
  }
  return all;
}

Plan make_cuda_plan(const Problem& p, const Machine& machine, const PlanOptions& options) {
  require_gpu_problem(p);
  require_machine(p, machine);
  require_options(p, options);
  return p.op == Op::ag_gemm ? make_gather_plan(p, machine, options)
                             : make_cuda_reduce_plan(p, machine, options);
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
  m.link_bytes_per_s = plan::kLinkBytesPerS;
  m.rank_flops_per_s = plan::kRankFlopsPerS;
  return m;
}

}  // namespace tilelace
