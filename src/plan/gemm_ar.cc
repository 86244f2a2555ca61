// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm_ar.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "core/check.h"
#include "plan/problem.h"
#include "plan/schedules.h"
#include "schedule/reduce_order.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::Index;

// Measured on H200s over NVLink (docs/decisions/0006); the tail is the end of the last tiles.
constexpr double kSendBytesPerUs = 330e3;
constexpr double kCopyBytesPerUs = 1.6e6;
constexpr double kTailUs = 10;

/// A step of the ring must hold 2 KiB of each term of a tile.
bool can_share(const GemmTile& t, int ranks) {
  return plan::can_share(t.blocks, t.width, t.pingpong) &&
         (t.rows() + t.width) * 128 >= 2048 * (ranks - 1);
}

Index given_bytes(const GemmTile& t) { return Index{(t.blocks * t.width / 2 + 7) / 8} * 2048; }

void require_problem(const Problem& p) {
  require(p.op == Op::gemm_ar, "gemm_ar: op, got {}, expected gemm_ar", name_of(p.op));
  check_problem(p);
  require(p.ranks <= schedule::kMaxReduceRanks, "gemm_ar: ranks, got {}, expected at most {}",
          p.ranks, schedule::kMaxReduceRanks);
}

schedule::GemmReduce schedule_of(const Problem& p, const GemmTile& tile, int blocks, int rank) {
  Plan plan;
  plan.op = p.op;
  plan.transport = Transport::store;
  plan.tile_m = tile.worker_rows();
  plan.tile_n = tile.worker_cols();
  plan.blocks = blocks;
  const auto borders = borders_of(p);
  auto s = gemm_reduce_schedule(p, plan, rank, borders);
  s.split.borders = nullptr;  // of no use here, and not ours to keep
  const Index whole = Index{tile.worker_rows()} * p.ranks;
  if (p.m >= 2 * blocks * whole) s.block_grain = whole;
  return s;
}

/// Rows of tiles in all shards of all blocks.
Index tile_rows(const schedule::GemmReduce& s, Index rows) {
  Index n = 0;
  for (int b = 0; b < s.blocks; ++b)
    for (int q = 0; q < s.ranks(); ++q) n += ceil_div(s.shard(b, q).size(), rows);
  return n;
}

double predict(const Problem& p, const GemmPlan& gemm, const schedule::GemmReduce& s) {
  const Index rows = gemm.tile.worker_rows();
  const double us = gemm.predicted_us * static_cast<double>(tile_rows(s, rows)) /
                    static_cast<double>(ceil_div(p.m, rows));
  const double share = static_cast<double>(p.ranks - 1) / p.ranks;
  const double bytes = share * static_cast<double>(p.m * p.n.front() * 2);
  // What is left when the last product ends: half of the last block's own rows, and the copy.
  const double last = share * static_cast<double>(s.block_rows(s.blocks - 1).size()) *
                      static_cast<double>(p.n.front() * 2) / kSendBytesPerUs;
  return std::max(us, 2 * bytes / kSendBytesPerUs) + last / 2 + bytes / kCopyBytesPerUs / 2 +
         kTailUs;
}

}  // namespace

std::string describe(const GemmArPlan& plan) {
  return fmt::format("{} blocks, remote shards {}; {}", plan.blocks,
                     plan.together ? "together" : "apart", describe(plan.gemm));
}

std::ostream& operator<<(std::ostream& out, const GemmArPlan& plan) {
  return out << describe(plan);
}

schedule::GemmReduce gemm_ar_schedule(const Problem& p, const GemmArPlan& plan, int rank) {
  return schedule_of(p, plan.gemm.tile, plan.blocks, rank);
}

std::vector<GemmArPlan> gemm_ar_candidates(const Problem& p, const GemmMachine& machine) {
  require_problem(p);
  require(p.m > 0, "gemm_ar: m, got 0, expected rows to plan for");
  std::vector<GemmArPlan> plans;
  for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
    if (!can_share(gemm.tile, p.ranks) || gemm.split_tiles != 0) continue;
    for (int blocks = 1; blocks <= schedule::kMaxReduceBlocks; ++blocks) {
      if (blocks > 1 && p.m < Index{gemm.tile.worker_rows()} * p.ranks * blocks) break;
      const auto s = schedule_of(p, gemm.tile, blocks, 0);
      plans.push_back({gemm, true, blocks, predict(p, gemm, s)});
    }
  }
  std::stable_sort(plans.begin(), plans.end(), [](const GemmArPlan& a, const GemmArPlan& b) {
    return a.predicted_us < b.predicted_us;
  });
  return plans;
}

std::int64_t gemm_ar_staging_bytes(const Problem& p) {
  require_problem(p);
  Index most = 0;
  for (const GemmTile& t : kGemmTiles) {
    if (!can_share(t, p.ranks)) continue;
    for (int blocks = 1; blocks <= schedule::kMaxReduceBlocks; ++blocks) {
      const auto s = schedule_of(p, t, blocks, 0);
      const Index tiles =
          ceil_div(s.max_shard_rows(), t.worker_rows()) * ceil_div(p.n.front(), t.worker_cols());
      most = std::max(most, p.ranks * blocks * tiles * t.cluster() * given_bytes(t));
    }
  }
  return most + 128 + p.m * p.n.front() * static_cast<Index>(size_of(p.dtype));
}

}  // namespace tilelace::plan
