// SPDX-License-Identifier: Apache-2.0
#include "check/call.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>

#include "core/check.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::check {

using schedule::AgGemm;
using schedule::GemmReduce;

namespace {

std::string to_string(const WalkSpec& w) {
  std::string text;
  if (w.apart >= 0) text += fmt::format(" apart {}", w.apart);
  if (!w.joins.empty()) text += fmt::format(" joins {}", fmt::join(w.joins, ","));
  if (w.whole) text += " whole";
  if (w.across) text += " across";
  if (w.together) text += " together";
  if (w.pairs) text += " pairs";
  if (w.along_cols) text += " along cols";
  if (w.wide < 1 << 20) text += fmt::format(" wide {}", w.wide);
  if (w.deep != 1) text += fmt::format(" deep {}", w.deep);
  return text;
}

}  // namespace

std::string_view name_of(const CallSpec& s) {
  return s.exchange ? row_of(s.exchange->collective).name : row_of(s.op).name;
}

std::string to_string(const CallSpec& s) {
  if (s.exchange) return to_string(*s.exchange);
  static constexpr std::array<std::string_view, 3> kRoutes = {"mesh", "ring", "two_level"};
  std::string text = fmt::format("{} {} {} m {} cols {} tile_m {} chunk_rows {}", row_of(s.op).name,
                                 kRoutes.at(static_cast<std::size_t>(s.route)),
                                 row_of(s.transport).name, s.m, s.cols, s.tile_m, s.chunk_rows);
  if (!s.rows.empty()) text += fmt::format(" rows {}", fmt::join(s.rows, ","));
  if (s.route == RouteKind::two_level) text += fmt::format(" local {}", s.local);
  if (s.raster_group != 1) text += fmt::format(" raster_group {}", s.raster_group);
  if (s.blocks != 1) text += fmt::format(" blocks {}", s.blocks);
  if (s.block_grain != 1) text += fmt::format(" block_grain {}", s.block_grain);
  if (s.straddle) text += " straddle";
  if (s.deliver) text += " deliver";
  if (s.unfused) text += " unfused";
  if (s.copied) text += " copied";
  if (s.shots != 1) text += fmt::format(" shots {}", s.shots);
  if (s.direct) text += " direct";
  if (s.lag != 0) text += fmt::format(" lag {}", s.lag);
  if (s.by_columns) text += " by columns";
  return text + to_string(s.walk);
}

std::ostream& operator<<(std::ostream& out, const CallSpec& spec) { return out << to_string(spec); }

namespace {

template <class Schedule>
CallSpec common_spec(const Schedule& s) {
  CallSpec spec;
  spec.m = s.split.m;
  spec.cols = s.cols;
  spec.tile_m = s.tile_m;
  spec.chunk_rows = s.chunk_rows;
  spec.raster_group = static_cast<int>(s.raster_group);
  spec.route = s.route.kind;
  if (spec.route == RouteKind::two_level) spec.local = s.route.local;
  spec.transport = s.transport;
  spec.straddle = s.straddle;
  for (int r = 0; r < s.ranks() && s.split.borders != nullptr; ++r) {
    spec.rows.push_back(s.split.shard(r).size());
  }
  return spec;
}

}  // namespace

CallSpec spec_of(const AgGemm& s) {
  CallSpec spec = common_spec(s);
  spec.deliver = s.deliver;
  return spec;
}

CallSpec spec_of(const GemmReduce& s) {
  CallSpec spec = common_spec(s);
  spec.op = op_that(true, s.all_reduce);
  if (s.all_reduce) spec.rows.clear();
  spec.blocks = s.blocks;
  spec.block_grain = s.block_grain;
  return spec;
}

namespace {

std::optional<std::string> legal_lag(const CallSpec& s, int ranks) {
  if (s.lag < 0) return "lag must not be negative";
  if (s.by_columns && (s.lag == 0 || s.blocks != 1 || s.cols % ranks != 0))
    return "by_columns needs lag, one block, and cols that are a multiple of the number of ranks";
  if (s.lag == 0) return std::nullopt;
  if (!row_of(s.op).shares || s.route != RouteKind::mesh || s.unfused || s.straddle || s.direct)
    return "lag is for fused gemm_ar over the mesh, without straddle or direct";
  if (!row_of(s.transport).by_workers()) return "lag needs transport store";
  if (ranks > schedule::kMaxGpuRanks || s.blocks > schedule::kMaxShareBlocks)
    return "lag is for at most 8 ranks and 8 blocks";
  return std::nullopt;
}

std::optional<std::string> legal_gather_walk(const CallSpec& s, int ranks) {
  const WalkSpec& w = s.walk;
  if (w.together || w.pairs) return "fields together and pairs are for gemm_rs";
  if (w.apart < -1 || (!w.joins.empty() && w.apart != 0))
    return "field apart must be at least -1, and must be 0 if joins has entries";
  if (w.joins.size() >= static_cast<std::size_t>(ranks) && !w.joins.empty())
    return "joins must have fewer entries than there are ranks";
  if (w.whole && (!row_of(s.transport).by_workers() || w.apart != -1))
    return "field whole is for transport store with apart -1";
  if (!w.whole && w.across) return "field across is for calls with field whole";
  return std::nullopt;
}

std::optional<std::string> legal_walk(const CallSpec& s, int ranks) {
  const WalkSpec& w = s.walk;
  if (ranks > kMaxCheckedRanks) return "ranks must be at most 64";
  if (w == WalkSpec{}) return std::nullopt;
  if (w.wide < 1 || w.deep < 1) return "fields wide and deep must be at least 1";
  const bool gather = row_of(s.op).gathers;
  if (row_of(s.op).shares || s.unfused || s.straddle || s.cols < 1 ||
      ranks > schedule::kMaxGpuRanks)
    return "walks are for fused ag_gemm and gemm_rs of at most 8 ranks, without straddle";
  if (gather) return legal_gather_walk(s, ranks);
  if (w.apart != -1 || !w.joins.empty() || w.whole || w.across)
    return R"(fields "apart", "joins", "whole" and "across" are for ag_gemm)";
  if (!row_of(s.transport).by_workers()) return "gemm_rs with a walk: transport must be store";
  if (w.pairs && (w.together || ranks % 2 != 0))
    return "field pairs needs an even number of ranks, and field together off";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> legal(const CallSpec& s, int ranks) {
  if (s.exchange) return legal(*s.exchange, ranks);
  const bool mesh = s.route == RouteKind::mesh;
  const bool gather = row_of(s.op).gathers;
  if (ranks < 1) return "ranks must be at least 1";
  if (s.m < 0) return "m must not be negative";
  if (s.cols < (gather ? 0 : 1))
    return gather ? "cols must not be negative" : "cols must be at least 1";
  if (s.tile_m < 1 || s.chunk_rows < 1 || s.raster_group < 1) {
    return "tile_m, chunk_rows and raster_group must be at least 1";
  }
  if (s.blocks < 1 || s.block_grain < 1) return "blocks and block_grain must be at least 1";
  if (!s.rows.empty()) {
    if (row_of(s.op).shares) return "gemm_ar takes no rows";
    if (s.rows.size() != static_cast<std::size_t>(ranks))
      return "rows must have one entry per rank";
    if (*std::min_element(s.rows.begin(), s.rows.end()) < 0) return "rows must not be negative";
    if (std::accumulate(s.rows.begin(), s.rows.end(), Index{0}) != s.m)
      return "rows must add up to m";
  }
  if (s.route == RouteKind::two_level && (s.local < 1 || ranks % s.local != 0)) {
    return "field local must divide the number of ranks";
  }
  if (s.blocks > 1 && !row_of(s.op).shares) return "blocks are for gemm_ar";
  if (s.deliver && !gather) return "deliver is for ag_gemm";
  if (row_of(s.transport).by_workers() && !mesh) return "transport store needs route mesh";
  if (row_of(s.transport).pulls && !gather && !mesh)
    return "transport pull of partials needs route mesh";
  if (s.straddle && (!mesh || row_of(s.op).shares))
    return "straddle needs route mesh and is not for gemm_ar";
  const bool switched = row_of(s.transport).needs_multicast();
  if (s.shots != 1 && (!switched || s.shots != 2)) return "shots must be 1 or, for multimem, 2";
  if (s.direct && (!switched || s.shots != 2)) return "direct is for multimem in two shots";
  if (switched && (!row_of(s.op).shares || !mesh || s.unfused || s.blocks != 1))
    return "multimem is for fused gemm_ar over the mesh, of one block";
  if (s.copied && (!s.unfused || !row_of(s.op).scatters() || s.shots != 1)) {
    return "field copied is for unfused gemm_rs with shots 1";
  }
  if (auto reason = legal_lag(s, ranks)) return reason;
  if (auto reason = legal_walk(s, ranks)) return reason;
  if (!s.unfused) return std::nullopt;
  if (gather || !mesh || ranks > schedule::kMaxGpuRanks) {
    return "unfused is for sums over the mesh, of at most 8 ranks";
  }
  if (row_of(s.transport).by_workers() && row_of(s.op).scatters()) {
    return "unfused needs transport pull or, for gemm_ar, store";
  }
  if (row_of(s.transport).pushes() && !s.copied)
    return "unfused cannot have transport push: use exchange";
  if (s.cols != 1 || s.blocks != 1 || s.straddle)
    return "unfused sums must have cols 1, one block and no straddle";
  return std::nullopt;
}

int min_resident(const CallSpec& s, int workers) {
  if (s.exchange) return 1;  // each waits for those of its number
  // Products wait for nobody, sums for those of their number, which come first.
  if (row_of(s.transport).needs_multicast()) return 1;
  // Terms come from all workers of the peers' products; one actor that does both collects last.
  if (s.lag > 0) return workers > 1 ? launched_first(s, workers) : 1;
  if (s.unfused) return 1;  // each waits for those of its number
  return row_of(s.op).gathers && !row_of(s.transport).by_workers() ? 2 : workers + 1;
}

int launched_first(const CallSpec& s, int workers) {
  return s.lag > 0 ? schedule::SharedTiles::products(workers) : 0;
}

}  // namespace tilelace::check
