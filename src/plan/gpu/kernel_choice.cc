// SPDX-License-Identifier: Apache-2.0
#include "plan/gpu/kernel_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ostream>

#include "core/architecture.h"
#include "plan/gpu/staging.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

/// The words of each way, beside those of its tile.
void tell(const AgGemmWay& way, Plan& plan) {
  plan.path = way.path;
  plan.route = way.route;
  plan.transport = way.transport;
  plan.chunk_rows = way.chunk_rows;
  plan.straddle = way.whole;
}
void tell(const GemmRsWay& way, Plan& plan) {
  plan.transport = Transport::store;
  plan.chunk_rows = way.gemm.tile.worker_tokens();
  plan.straddle = way.pairs;
}
void tell(const GemmArWay& way, Plan& plan) {
  plan.transport = Transport::store;
  plan.chunk_rows = way.block_rows;
}
void tell(const KeptPartialsWay& way, Plan& plan) {
  plan.transport = way.by_switch ? Transport::multimem : Transport::pull;
  plan.chunk_rows = way.gemm.tile.worker_tokens();
}
void tell(const UnfusedSumWay& way, Plan& plan) {
  plan.path = Path::unfused;
  plan.transport = way.transport;
  plan.chunk_rows = way.chunk_rows;
}
void tell(const CopiedPartialsWay& way, Plan& plan) {
  plan.path = Path::medium;
  plan.transport = transport_that(Carrier::engine);
  plan.chunk_rows = way.chunk_rows;
}

/// What is printed of a way behind its tile.
struct Said {
  int apart = 1;
  std::vector<int> joins = {};
  int lag = 0;
  bool by_columns = false;
  int shots = 0;
  bool lines = false;
  int cublas = 0;
};
Said said_of(const AgGemmWay& way) {
  return {.apart = way.apart, .joins = way.joins, .lines = way.lines};
}
Said said_of(const GemmRsWay& way) { return {.apart = way.apart}; }
Said said_of(const GemmArWay& way) { return {.lag = way.lag, .by_columns = way.by_columns}; }
Said said_of(const KeptPartialsWay& way) { return {.shots = way.by_switch ? 0 : way.shots}; }
Said said_of(const UnfusedSumWay& way) {
  return {.shots = row_of(way.transport).pushes() ? way.shots : 0,
          .lines = way.lines,
          .cublas = way.cublas};
}
Said said_of(const CopiedPartialsWay& /*way*/) { return {}; }
Said said_of(const KernelWay& way) {
  return std::visit([](const auto& w) { return said_of(w); }, way);
}

/// Whether the product walks its tiles as by itself, not shard by shard.
bool walks_whole(const AgGemmWay& way) { return way.whole; }
bool walks_whole(const GemmRsWay& /*way*/) { return false; }
bool walks_whole(const GemmArWay& /*way*/) { return false; }
bool walks_whole(const KeptPartialsWay& /*way*/) { return true; }
bool walks_whole(const UnfusedSumWay& /*way*/) { return true; }
bool walks_whole(const CopiedPartialsWay& /*way*/) { return true; }

}  // namespace

void tell_way(const KernelWay& way, Plan& plan) {
  std::visit([&](const auto& w) { tell(w, plan); }, way);
}

Plan plan_of(const Problem& p, KernelWay way, int grid) {
  const auto tell_plainly = [&](auto& w) {
    if (walks_whole(w)) w.gemm = plainly_walked(w.gemm, p.m);
  };
  std::visit(tell_plainly, way);
  const GemmPlan& gemm = gemm_of(way);
  Plan plan;
  plan.op = p.op;
  plan.tile_m = gemm.tile.worker_tokens();
  plan.tile_n = gemm.tile.worker_columns();
  plan.workers = gemm.workers;
  plan.partials = p.dtype;
  tell_way(way, plan);
  tell_staging(p, gemm.architecture, plan);
  if (grid == 0) {
    const int tiles = std::visit([&](const auto& w) { return tiles_of(w, p); }, way);
    grid = gemm.ctas(tiles);
  }
  plan.kernel = std::make_shared<const KernelChoice>(KernelChoice{std::move(way), grid});
  return plan;
}

const GemmPlan& gemm_of(const KernelWay& way) {
  return std::visit([](const auto& w) -> const GemmPlan& { return w.gemm; }, way);
}

double predicted_us_of(const KernelWay& way) {
  return std::visit([](const auto& w) { return w.predicted_us; }, way);
}

int cublas_of(const KernelWay& way) {
  const auto* const sum = std::get_if<UnfusedSumWay>(&way);
  return sum == nullptr ? 0 : sum->cublas;
}

bool multiply_alike(const KernelWay& a, const KernelWay& b) {
  const int cublas = cublas_of(a);
  return cublas == cublas_of(b) && (cublas > 0 || gemm_of(a).tile.name == gemm_of(b).tile.name);
}

bool may_be_tuned(const KernelWay& way) {
  const auto* const gather = std::get_if<AgGemmWay>(&way);
  if (gather != nullptr) return !row_of(gather->transport).pulls;
  return !std::holds_alternative<CopiedPartialsWay>(way);
}

std::ostream& operator<<(std::ostream& os, const KernelChoice& choice) {
  const GemmPlan& g = gemm_of(choice.way);
  const Said s = said_of(choice.way);
  os << g.tile.name;
  if (g.architecture != 0) os << " of " << name_of_architecture(g.architecture);
  os << fmt::format(" split {} group {}", g.split_tiles, g.group);
  if (g.rounds > 1) os << fmt::format(" in {} rounds", g.rounds);
  if (g.deep > 1) os << fmt::format(" blocks {}x{}", g.wide, g.deep);
  if (s.apart > 1) os << fmt::format(" {} apart", s.apart);
  if (!s.joins.empty()) os << fmt::format(" joined behind {}", fmt::join(s.joins, " "));
  if (s.lag > 0) os << fmt::format(" lag {}", s.lag);
  if (s.by_columns) os << " column shards";
  if (s.shots > 0) os << fmt::format(" shots {}", s.shots);
  if (s.lines) os << " lines";
  if (s.cublas > 0) os << fmt::format(" cublas {}", s.cublas);
  if (g.along_cols) os << " along n";
  if (g.by_neighbours) os << " by neighbours";
  if (g.early_weights) os << " early";
  return os << fmt::format(" grid {}", choice.grid);
}

}  // namespace tilelace::plan
