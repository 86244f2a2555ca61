// SPDX-License-Identifier: Apache-2.0
#include "plan/ag_gemm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "core/check.h"
#include "plan/gather_arrival.h"
#include "plan/gemm_cost.h"
#include "plan/problem.h"
#include "plan/schedules.h"

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
/// Of tiles that predictions look at one by one.
constexpr Index kMostWaves = 1024;
constexpr double kPullCost = 0.2;  ///< of the product: four H200s, m 512 to 2048, 18 to 46 %
constexpr double kForkUs = 6;      ///< copy streams around a call: the kernel before it ends first
constexpr double kEnterUs = 3;
constexpr double kFastFlopsPerUs = 6e6;  ///< of a multiprocessor

constexpr Index kLeastCopy = 4 << 20;  ///< bytes; smaller copies do not reach the link's rate
constexpr Index kMostSentRows = 2048;  ///< likewise, by shard, where own tiles come first
constexpr Index kMostPushRows = 1024;  ///< of all ranks; beyond that copy engines are better
constexpr Index kPushers = 132;
constexpr Index kMostChunks = 64;
/// Multiprocessors: one less than that does not hold a cluster of every tile.
constexpr int kLeastRelayed = 17;

bool can_gather(const GemmTile& t) {
#define TILELACE_GEMM_NAME(tile, ...) t.name == #tile ||
  return !(TILELACE_GEMM_TALL_ALONE(TILELACE_GEMM_NAME) false);
#undef TILELACE_GEMM_NAME
}

/// A product by shard: all of it, and tiles along its rows and columns.
struct Walk {
  double us;
  Index rows, cols;
  int workers;
};

class Candidates {
 public:
  explicit Candidates(const Problem& p) : p_(p), borders_(borders_of(p)) {
    most_rows_ = split_of(p, borders_).max_rows();
    row_bytes_ = p.k * static_cast<Index>(size_of(p.dtype));
    first_n_ = product_of(p, widest_product(p), p.m).n;
    scale_ = static_cast<double>(p.total_n()) / static_cast<double>(first_n_);
  }

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

  std::vector<AgGemmPlan> sorted() {
    std::stable_sort(plans_.begin(), plans_.end(), [](const AgGemmPlan& a, const AgGemmPlan& b) {
      return a.predicted_us < b.predicted_us;
    });
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

  void add(AgGemmPlan plan, const Way& way, double us) {
    plan.transport = way.transport;
    plan.route = way.route;
    plan.chunk_rows = way.chunk_rows;
    plan.predicted_us = us + kEnterUs + (way.transport == Transport::store ? 0 : kForkUs) +
                        (plan.gemm.early_weights || p_.ranks == 2 ? 0 : kLateStartUs);
    plans_.push_back(plan);
  }

  void add_by_shard(const GemmPlan& gemm, const schedule::RowSplit& split, Transport transport,
                    RouteKind route) {
    const Index rows = gemm.tile.worker_tokens();
    const Index tiles = tile_rows_by_shard(split, rows);
    const double us = gemm.predicted_us * scale_ * static_cast<double>(tiles) /
                      static_cast<double>(schedule::ceil_div(p_.m, rows));
    const Walk walk{us, tiles, schedule::ceil_div(first_n_, gemm.tile.worker_columns()),
                    gemm.workers};
    if (transport == Transport::store) {
      const Way way{transport, route, push_chunk()};
      const double held_up = us + kPushedShardCost * pushed();
      const Arrival a{pushed(), pushed()};
      const double all = held_up + reread_us(walk, 1) + late_us(walk, 1, a);
      add({.gemm = gemm}, way, all);
      add_joined(gemm, way, all, walk, a);
      if (p_.m > kMostPushRows)
        add({.gemm = gemm, .apart = p_.ranks}, way,
            std::max(held_up + reread_us(walk, p_.ranks), pushed() + us / p_.ranks));
      return;
    }
    for (const Index parts : {1, 2, 4}) {
      const Index chunk = schedule::max_of(1, schedule::ceil_div(most_rows_, parts));
      if (parts > 1 && chunk * row_bytes_ < kLeastCopy) break;
      const Way way{transport, route, chunk};
      // The product begins that much behind the copies.
      const Arrival sent = arrival_of(way, most_rows_, row_bytes_, p_.ranks);
      const Arrival a{sent.first_us - kForkUs, sent.last_us - kForkUs};
      const bool mesh =
          route == RouteKind::mesh && (p_.ranks > 4 || (p_.ranks > 2 && p_.m <= kMostMeshRows));
      const auto apart = [&](int shards) {
        const double slack = (p_.ranks > 3 && shards != 2 ? kUnevenCost : 0) +
                             tall_cost(gemm.tile) + (mesh ? kMeshCost : 0) +
                             (transport == Transport::pull ? kPullCost : 0);
        const double all = us * (1 + slack) + reread_us(walk, shards) + late_us(walk, shards, a);
        add({.gemm = gemm, .apart = shards}, way, all);
        if (shards == 1 && transport == Transport::push) add_joined(gemm, way, all, walk, sent);
      };
      apart(1);
      if (p_.ranks > 3) apart(2);
      if (p_.ranks > 2) apart(p_.ranks);
    }
  }

  /// The same plan with shards that join the own one, behind whole waves of tiles, by when their
  /// rows have come; `all`: with it apart. What is read once less counts.
  void add_joined(const GemmPlan& gemm, const Way& way, double all, const Walk& w, Arrival a) {
    const GemmTile& t = gemm.tile;
    const double turn = 2.0 * static_cast<double>(t.rows() * t.width * p_.k) / kFastFlopsPerUs;
    AgGemmPlan plan{.gemm = gemm};
    schedule::GatherOrder order;
    schedule::GatherJoins joins;
    order.walk.cols = static_cast<int>(w.cols);
    for (int i = 0; i < p_.ranks; ++i) {
      order.tile_rows[order.count++] = static_cast<int>(schedule::ceil_div(w.rows, p_.ranks));
      if (i == 0) continue;
      const double of = p_.ranks > 2 ? static_cast<double>(i - 1) / (p_.ranks - 2) : 1;
      const double us = a.first_us + of * (a.last_us - a.first_us);
      joins.after[i] = static_cast<int>(
          std::min(std::ceil(us / turn) * gemm.workers, static_cast<double>(w.rows * w.cols)));
      plan.joins.push_back(joins.after[i]);
    }
    schedule::detail::walk_joined(order, joins);
    Index columns = 0;
    for (int i = 0; i < order.walks; ++i)
      columns += order.walked[i].cols * readings(order.walked[i].rows * t.worker_tokens());
    const Index apart = readings(most_rows_) + readings(p_.m - most_rows_);
    const double saved =
        static_cast<double>(apart) - static_cast<double>(columns) / static_cast<double>(w.cols);
    if (saved > 0) add(plan, way, all - saved * reading_us());
  }

  [[nodiscard]] double tall_cost(const GemmTile& t) const {
    return t.rows() > 128 && p_.k <= kShortSums ? kTallCost : 0;
  }

  /// What waits for rows add to a product whose first `apart` shards are walked one after the
  /// other: where the own shard's tiles fill no wave, some workers begin with a peer's.
  [[nodiscard]] double late_us(const Walk& w, int apart, Arrival a) const {
    const Index tiles = w.rows * w.cols;
    const double turn = w.us / static_cast<double>(schedule::ceil_div(tiles, w.workers));
    const double each = p_.ranks > 2 ? (a.last_us - a.first_us) / (p_.ranks - 2) : 0;
    // Several waves at a time where there are more than any call that is made has.
    const Index waves = schedule::max_of(1, tiles / w.workers / kMostWaves);
    double last = 0;
    for (int worker = 0; worker < w.workers; ++worker) {
      double end = 0;
      Index t = worker;
      for (; t < tiles && end < a.last_us; t += waves * w.workers) {
        const auto shard = static_cast<int>(t * p_.ranks / tiles);
        if (shard > 0)
          end = std::max(end, shard < apart ? a.first_us + (shard - 1) * each : a.last_us);
        end += static_cast<double>(waves) * turn;
      }
      // Nobody waits any more.
      if (t < tiles) end += turn * static_cast<double>(schedule::ceil_div(tiles - t, w.workers));
      last = std::max(last, end);
    }
    return std::max(0.0, last - w.us);
  }

  void add_whole(const GemmPlan& gemm) {
    const AgGemmPlan plan{.gemm = gemm, .whole = true};
    add(plan, {Transport::store, RouteKind::mesh, push_chunk()},
        products_us(p_, plan) + pushed(kPushedWholePerUs) + kPushedCost * pushed());
  }

  /// Of tiles that take all weights at once, each for as many columns as it makes of them.
  void add_merged(const GemmMachine& machine) {
    std::set<Index> widths;
    for (const GemmTile& t : kGemmTiles)
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
    const Way way{Transport::push, RouteKind::mesh, schedule::max_of(1, most_rows_)};
    const double shard = gemm.predicted_us * scale_;
    const double last = arrival_of(way, most_rows_, row_bytes_, p_.ranks).last_us;
    add({.gemm = gemm, .path = Path::medium}, way, std::max(shard * p_.ranks, last + shard));
  }

  /// What reading weights again costs, for every walk over them more than the product alone takes.
  /// Walks that share a wave read them once. Between two ranks that is not to be seen (m 512 and
  /// 1024, two H200s: predictions 4 to 9 % above).
  [[nodiscard]] double reread_us(const Walk& w, int apart) const {
    if (p_.ranks == 2) return 0;
    Index count = apart * readings(most_rows_);
    if (apart < p_.ranks) count += readings(p_.m - apart * most_rows_);
    const Index waves = schedule::ceil_div(w.rows * w.cols, w.workers);
    const Index more = std::max<Index>(0, std::min(count, waves) - readings(p_.m));
    return static_cast<double>(more) * reading_us();
  }
  /// Of the weight, by a walk over so many rows; and what one takes. Only the first product walks
  /// shards apart.
  [[nodiscard]] static Index readings(Index rows) { return schedule::ceil_div(rows, kWalkRows); }
  [[nodiscard]] double reading_us() const {
    return static_cast<double>(first_n_ * row_bytes_) * kRereadUsPerByte;
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
  Index most_rows_ = 0;  ///< of a shard
  Index row_bytes_ = 1;
  Index first_n_ = 0;  ///< columns of the first product
  double scale_ = 0;   ///< all products against it
  std::vector<AgGemmPlan> plans_;
};

std::string cut_of(const AgGemmPlan& plan) {
  if (plan.path == Path::medium) return "a product a shard";
  if (plan.whole) return "whole";
  if (!plan.joins.empty())
    return fmt::format("by shard, joined behind {} tiles", fmt::join(plan.joins, " "));
  return fmt::format("by shard, {} apart", plan.apart);
}

std::string_view mover_of(const AgGemmPlan& plan) {
  if (plan.transport == Transport::store) return "sent by the product";
  if (plan.transport == Transport::pull) return "copy engine pulls";
  if (plan.transport == Transport::nccl) return "NCCL";
  return plan.route == RouteKind::ring ? "copy engine, ring" : "copy engine";
}

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

bool is_merged(const Problem& p, const AgGemmPlan& plan) {
  const GemmTile& t = plan.gemm.tile;
  return plan.whole && p.outputs() > 1 && p.n.size() <= static_cast<std::size_t>(kMostWeights) &&
         can_merge(t.blocks, t.width);
}

double products_us(const Problem& p, const AgGemmPlan& plan) {
  if (is_merged(p, plan)) return plan.gemm.predicted_us;
  return plan.gemm.predicted_us * static_cast<double>(p.total_n()) /
         static_cast<double>(product_of(p, widest_product(p), p.m).n);
}

std::string describe(const AgGemmPlan& plan) {
  return fmt::format("{}, {}, chunks of {} rows; {}", cut_of(plan), mover_of(plan), plan.chunk_rows,
                     describe(plan.gemm));
}

std::ostream& operator<<(std::ostream& out, const AgGemmPlan& plan) {
  return out << describe(plan);
}

int AgGemmPlan::left_free() const {
  if (transport == Transport::nccl) return kNcclMultiprocessors;
  return relays() ? kRelayMultiprocessors : 0;
}

namespace {

void require_problem(const Problem& problem) {
  require(problem.op == Op::ag_gemm, "ag_gemm: op, got {}, expected ag_gemm", name_of(problem.op));
  check_problem(problem);
  require(problem.m > 0, "ag_gemm: m, got 0, expected rows to plan for");
  require(problem.ranks <= schedule::kMaxSections, "ag_gemm: ranks, got {}, expected at most {}",
          problem.ranks, schedule::kMaxSections);
}

}  // namespace

std::vector<AgGemmPlan> ag_gemm_candidates(const Problem& problem, const GemmMachine& machine) {
  require_problem(problem);
  Candidates all(problem);
  all.add_all(machine);
  return all.sorted();
}

std::vector<AgGemmPlan> ag_gemm_nccl_candidates(const Problem& problem,
                                                const GemmMachine& machine) {
  require_problem(problem);
  Candidates all(problem);
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
  const Index row_bytes = p.k * static_cast<Index>(size_of(p.dtype));
  if (transport == Transport::store) return kEnterUs + pushed_us(rows, row_bytes, p.ranks);
  const Way way{transport, route, schedule::max_of(1, rows)};
  return kEnterUs + arrival_of(way, rows, row_bytes, p.ranks).last_us;
}

}  // namespace tilelace::plan
