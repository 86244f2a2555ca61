// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/ag_gemm_way.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/ways/gather_walks.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

/// By the product's warps; whole, weights stream meanwhile (benchmarks/nvidia-h200-tp4).
constexpr double kPushedWholePerUs = 550e3;
/// Of the time that it takes: products that wait for memory behind stores.
constexpr double kPushedCost = 0.15;
/// The same by shard, of the plans that were the first choice before (four H200s, m 1024: 28 and
/// 37 %; eight, m 2048: 63 %).
constexpr double kPushedShardCost = 0.45;
/// Of the product, among four, where other than the first two shards are walked one after the other
/// (0 to 2 %).
constexpr double kUnevenCost = 0.015;
/// Of the product, where copies go to all peers in turn, and not to one neighbour: why is not
/// known. Eight H200s, m 4096 to 16384: the same tile takes 2 to 8 % longer (gpt3, m 8192, 1 %
/// less). Four, m 1024: 4 to 14 %; from m 4096 up nothing.
constexpr double kMeshCost = 0.03;
constexpr Index kMostMeshRows = 2048;  ///< among three and four: where that is so
/// Of the product of tall tiles with few k-steps: their ends, which no other group hides, are more
/// of the time (two H200s, qwen32b, m 4096 and 8192: 3 to 5 % above, p192 1 % below).
constexpr double kTallCost = 0.03;
constexpr Index kShortSums = 6144;  ///< k
constexpr double kPullCost = 0.2;   ///< of the product: four H200s, m 512 to 2048, 18 to 46 %
constexpr double kForkUs = 6;       ///< copy streams around a call: the kernel before it ends first
constexpr double kEnterUs = 3;

constexpr Index kLeastCopy = 4 << 20;  ///< bytes; smaller copies do not reach the link's rate
constexpr Index kMostSentRows = 2048;  ///< likewise, by shard, where own tiles come first
constexpr Index kMostPushRows = 1024;  ///< of all ranks; beyond that copy engines are better
constexpr Index kPushers = 132;
constexpr Index kMostChunks = 64;
/// Multiprocessors: one less than that does not hold a cluster of every tile.
constexpr int kLeastRelayed = 17;

class GatherCandidates {
 public:
  explicit GatherCandidates(const Problem& p)
      : p_(p),
        borders_(borders_of(p)),
        most_rows_(split_of(p, borders_).max_rows()),
        row_bytes_(input_row_bytes(p)),
        first_n_(product_of(p, widest_product(p), p.m).n),
        scale_(static_cast<double>(p.total_n()) / static_cast<double>(first_n_)),
        walks_(p, most_rows_, first_n_) {}

  void add_all(const GemmMachine& machine) {
    const schedule::RowSplit split = split_of(p_, borders_);
    for (const GemmPlan& gemm : gemms(p_.m, machine)) {
      if (can_be_cut(gemm)) {
        add_by_shard(gemm, split, Transport::push, RouteKind::mesh);
        if (p_.m <= kMostSentRows && can_push(gemm.tile.blocks, gemm.tile.width))
          add_by_shard(gemm, split, Transport::store, RouteKind::mesh);
      }
      if (p_.m <= kMostPushRows && !is_merged(p_, {.gemm = gemm, .whole = true})) add_whole(gemm);
    }
    if (p_.m <= kMostPushRows) add_merged(machine);
    for (const GemmPlan& gemm : gemms(most_rows_, machine)) add_medium(gemm);
    if (machine.multiprocessors < kLeastRelayed) return;
    for (const GemmPlan& gemm : gemms(p_.m, machine.leaving(kRelayMultiprocessors))) {
      if (!can_be_cut(gemm) || !fits_beside_copies(gemm.tile)) continue;
      add_by_shard(gemm, split, Transport::pull, RouteKind::mesh);
      add_by_shard(gemm, split, Transport::push, RouteKind::ring);
    }
  }

  void add_nccl(const GemmMachine& machine) {
    const GemmMachine rest = machine.leaving(kNcclMultiprocessors);
    if (rest.multiprocessors < kLeastRelayed - kRelayMultiprocessors) return;
    const schedule::RowSplit split = split_of(p_, borders_);
    for (const GemmPlan& gemm : gemms(p_.m, rest))
      // CTAs are dealt one a multiprocessor first.
      if (can_be_cut(gemm) && fits_beside_copies(gemm.tile) &&
          gemm.workers * gemm.tile.cluster() <= rest.multiprocessors)
        add_by_shard(gemm, split, Transport::nccl, RouteKind::mesh);
  }

  std::vector<AgGemmWay> sorted() {
    std::ranges::stable_sort(plans_, {}, &AgGemmWay::predicted_us);
    return std::move(plans_);
  }

 private:
  [[nodiscard]] std::vector<GemmPlan> gemms(Index m, const GemmMachine& machine) const {
    auto all = gemm_candidates(product_of(p_, widest_product(p_), m), machine);
    std::erase_if(all, [](const GemmPlan& g) { return !can_gather(g.tile); });
    return all;
  }
  /// Whether its tiles may begin anew in every shard.
  static bool can_be_cut(const GemmPlan& gemm) {
    return gemm.split_tiles == 0 && (!gemm.tile.swapped || is_across(gemm.tile));
  }

  void add(AgGemmWay plan, const Travel& way, double us) {
    plan.transport = way.transport;
    plan.route = way.route;
    plan.chunk_rows = way.chunk_rows;
    plan.predicted_us = us + kEnterUs + (row_of(way.transport).by_workers() ? 0 : kForkUs) +
                        (plan.gemm.early_weights || p_.ranks == 2 ? 0 : kLateStartUs);
    plans_.push_back(plan);
  }

  void add_by_shard(const GemmPlan& gemm, const schedule::RowSplit& split, Transport transport,
                    RouteKind route) {
    const Index rows = gemm.tile.worker_tokens();
    const Index tiles = tile_rows_by_shard(split, rows);
    const double us = gemm.predicted_us * scale_ * static_cast<double>(tiles) /
                      static_cast<double>(schedule::ceil_div(p_.m, rows));
    const GatherWalk walk{us, tiles, schedule::ceil_div(first_n_, gemm.tile.worker_columns()),
                          gemm.workers};
    if (row_of(transport).by_workers()) {
      const Travel way{transport, route, push_chunk()};
      const double held_up = us + kPushedShardCost * pushed();
      const Arrival a{pushed(), pushed()};
      const double all = held_up + walks_.reread_us(walk, 1) + walks_.late_us(walk, 1, a);
      add({.gemm = gemm}, way, all);
      add_joined(gemm, way, all, walk, a);
      if (p_.m > kMostPushRows)
        add({.gemm = gemm, .apart = p_.ranks}, way,
            std::max(held_up + walks_.reread_us(walk, p_.ranks), pushed() + us / p_.ranks));
      return;
    }
    for (const Index parts : {1, 2, 4}) {
      const Index chunk = schedule::max_of(1, schedule::ceil_div(most_rows_, parts));
      if (parts > 1 && chunk * row_bytes_ < kLeastCopy) break;
      const Travel way{transport, route, chunk};
      // The product begins that much behind the copies.
      const Arrival sent = arrival_of(way, most_rows_, row_bytes_, p_.ranks);
      const Arrival a{sent.first_us - kForkUs, sent.last_us - kForkUs};
      const bool mesh =
          route == RouteKind::mesh && (p_.ranks > 4 || (p_.ranks > 2 && p_.m <= kMostMeshRows));
      const auto apart = [&](int shards) {
        const double slack = (p_.ranks > 3 && shards != 2 ? kUnevenCost : 0) +
                             tall_cost(gemm.tile) + (mesh ? kMeshCost : 0) +
                             (row_of(transport).pulls ? kPullCost : 0);
        const double all =
            us * (1 + slack) + walks_.reread_us(walk, shards) + walks_.late_us(walk, shards, a);
        add({.gemm = gemm, .apart = shards}, way, all);
        if (shards == 1 && row_of(transport).pushes()) add_joined(gemm, way, all, walk, sent);
      };
      apart(1);
      if (p_.ranks > 3) apart(2);
      if (p_.ranks > 2) apart(p_.ranks);
    }
  }

  /// The same plan with shards that join the own one; `all`: with it apart.
  void add_joined(const GemmPlan& gemm, const Travel& way, double all, const GatherWalk& walk,
                  Arrival a) {
    const GatherJoining joining = walks_.joining(gemm.tile, walk, a);
    if (joining.saved_us > 0)
      add({.gemm = gemm, .joins = joining.after}, way, all - joining.saved_us);
  }

  [[nodiscard]] double tall_cost(const GemmTile& t) const {
    return t.rows() > 128 && p_.k <= kShortSums ? kTallCost : 0;
  }

  void add_whole(const GemmPlan& gemm) {
    const AgGemmWay plan{.gemm = gemm, .whole = true};
    add(plan, {Transport::store, RouteKind::mesh, push_chunk()},
        products_us(p_, plan) + pushed(kPushedWholePerUs) + kPushedCost * pushed());
  }

  /// Of tiles that take all weights at once, each for as many columns as it makes of them.
  void add_merged(const GemmMachine& machine) {
    std::set<Index> widths;
    for (const GemmTile& t : plans_of(machine.architecture).tiles)
      if (is_merged(p_, {.gemm = {.tile = t}, .whole = true}))
        widths.insert(merged_product(p_, t).n);
    for (const Index n : widths)
      for (const GemmPlan& gemm : gemm_candidates({p_.m, n, p_.k, p_.dtype}, machine))
        if (is_merged(p_, {.gemm = gemm, .whole = true}) && merged_product(p_, gemm.tile).n == n)
          add_whole(gemm);
  }

  /// Each of its products reads the weight, which its prediction knows.
  void add_medium(const GemmPlan& gemm) {
    if (gemm.tile.swapped && !is_across(gemm.tile)) return;
    const Travel way{Transport::push, RouteKind::mesh, schedule::max_of(1, most_rows_)};
    const double shard = gemm.predicted_us * scale_;
    const double last = arrival_of(way, most_rows_, row_bytes_, p_.ranks).last_us;
    add({.gemm = gemm, .path = Path::medium}, way, std::max(shard * p_.ranks, last + shard));
  }

  [[nodiscard]] Index push_chunk() const {
    // As many pieces as there are multiprocessors.
    const Index rows = schedule::ceil_div(most_rows_ * p_.ranks, kPushers);
    return std::max(rows, schedule::ceil_div(most_rows_, kMostChunks));
  }
  [[nodiscard]] double pushed(double bytes_per_us = kPushBytesPerUs) const {
    return pushed_us(most_rows_, row_bytes_, p_.ranks, bytes_per_us);
  }

  const Problem& p_;
  std::vector<Index> borders_;
  Index most_rows_;  ///< of a shard
  Index row_bytes_;
  Index first_n_;  ///< columns of the first product
  double scale_;   ///< all products against it
  GatherWalks walks_;
  std::vector<AgGemmWay> plans_;
};

}  // namespace

GemmProblem product_of(const Problem& p, std::size_t i, std::int64_t m) {
  const bool gated = p.activation == Activation::swiglu;
  return {m, gated ? p.total_n() : p.n.at(i), p.k, p.dtype, gated};
}

std::size_t widest_product(const Problem& p) {
  if (p.activation == Activation::swiglu) return 0;
  return static_cast<std::size_t>(std::max_element(p.n.begin(), p.n.end()) - p.n.begin());
}

GemmProblem merged_product(const Problem& p, const GemmTile& t) {
  const Index cols = t.worker_columns();
  GemmProblem all{p.m, 0, p.k, p.dtype};
  for (const Index n : p.n) all.n += schedule::ceil_div(n, cols) * cols;
  return all;
}

bool is_merged(const Problem& p, const AgGemmWay& plan) {
  const GemmTile& t = plan.gemm.tile;
  return plan.whole && p.outputs() > 1 && p.n.size() <= static_cast<std::size_t>(kMostWeights) &&
         can_merge(t.blocks, t.width);
}

double products_us(const Problem& p, const AgGemmWay& plan) {
  if (is_merged(p, plan)) return plan.gemm.predicted_us;
  return plan.gemm.predicted_us * static_cast<double>(p.total_n()) /
         static_cast<double>(product_of(p, widest_product(p), p.m).n);
}

int tiles_of(const AgGemmWay& plan, const Problem& p) {
  const auto borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const bool medium = plan.path == Path::medium;
  const schedule::GemmWork work =
      work_of(plan.gemm, is_merged(p, plan)
                             ? merged_product(p, plan.gemm.tile)
                             : product_of(p, widest_product(p), medium ? split.max_rows() : p.m));
  if (plan.whole || medium) return work.order.tiles();
  const Index rows = tile_rows_by_shard(split, plan.gemm.tile.worker_tokens());
  return static_cast<int>(rows) * over_tokens(work.order, plan.gemm.tile).cols;
}

int AgGemmWay::left_free() const {
  if (row_of(transport).needs_nccl()) return kNcclMultiprocessors;
  return relays() ? kRelayMultiprocessors : 0;
}

namespace {

void require_gather(const Problem& problem) {
  require(problem.op == Op::ag_gemm, "ag_gemm: op, got {}, expected ag_gemm", name_of(problem.op));
  check_problem(problem);
  require(problem.m > 0, "ag_gemm: m, got 0, expected rows to plan for");
  require(problem.ranks <= schedule::kMaxGpuRanks, "ag_gemm: ranks, got {}, expected at most {}",
          problem.ranks, schedule::kMaxGpuRanks);
}

}  // namespace

std::vector<AgGemmWay> ag_gemm_candidates(const Problem& problem, const GemmMachine& machine) {
  require_gather(problem);
  GatherCandidates all(problem);
  all.add_all(machine);
  return all.sorted();
}

std::vector<AgGemmWay> ag_gemm_nccl_candidates(const Problem& problem, const GemmMachine& machine) {
  require_gather(problem);
  GatherCandidates all(problem);
  all.add_nccl(machine);
  return all.sorted();
}

schedule::GatherOrder shard_order(const schedule::GatherOrder& all, int section) {
  schedule::GatherOrder one = all;
  one.walks = 0;
  one.walked[0] = {};
  one.append(section, section + 1, 0, all.walk.cols);
  return one;
}

double gather_us(const Problem& p, Transport transport, RouteKind route) {
  const std::vector<Index> borders = borders_of(p);
  const Index rows = split_of(p, borders).max_rows();
  const Index row_bytes = input_row_bytes(p);
  if (row_of(transport).by_workers()) return kEnterUs + pushed_us(rows, row_bytes, p.ranks);
  const Travel way{transport, route, schedule::max_of(1, rows)};
  return kEnterUs + arrival_of(way, rows, row_bytes, p.ranks).last_us;
}

}  // namespace tilelace::plan
