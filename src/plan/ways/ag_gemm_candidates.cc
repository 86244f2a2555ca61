// SPDX-License-Identifier: Apache-2.0
// All plans of ag_gemm on GPUs, with what they are predicted to take.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gemm/gemm_cost.h"
#include "plan/ways/ag_gemm_products.h"
#include "plan/ways/gather_arrival.h"
#include "plan/ways/gather_exchange.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

constexpr Index kLeastCopy = 4 << 20;  ///< bytes; smaller copies do not reach the link's rate
constexpr Index kMostSentRows = 2048;  ///< of all ranks, by shard, sent by the product's warps
constexpr Index kMostPushRows = 1024;  ///< likewise, whole
constexpr int kMostWavesShared = 8;  ///< of many rows: of more waves one that is not full is little
/// Multiprocessors: one less than that does not hold a cluster of every tile.
constexpr int kLeastRelayed = 17;

class GatherCandidates {
 public:
  GatherCandidates(const Problem& p, const GemmMachine& machine)
      : p_(p),
        hardware_(hardware_of(machine)),
        borders_(borders_of(p)),
        most_rows_(split_of(p, borders_).max_rows()),
        row_bytes_(input_row_bytes(p)) {}

  void add_all(const GemmMachine& machine) {
    for (const GemmPlan& gemm : gemms(p_.m, machine)) {
      const bool sends = can_push(gemm.tile.blocks, gemm.tile.width);
      if (can_be_cut(gemm)) {
        for (const GemmPlan& cut : with_shared(gemm)) {
          add_by_shard(cut, machine, Transport::push, RouteKind::mesh);
          if (sends && p_.m <= kMostSentRows)
            add_by_shard(cut, machine, Transport::store, RouteKind::mesh);
        }
      }
      if (!is_plainly_walked(gemm, p_.m)) continue;
      if (sends && p_.m <= kMostPushRows) add_whole(gemm, machine);
      add_exchanged(gemm, machine);
    }
    for (const GemmPlan& gemm : gemms(most_rows_, machine)) add_medium(gemm, machine);
    if (machine.multiprocessors < kLeastRelayed) return;
    const GemmMachine rest = machine.leaving(kRelayMultiprocessors);
    for (const GemmPlan& gemm : gemms(p_.m, rest)) {
      if (!can_be_cut(gemm) || !fits_beside_copies(gemm.tile)) continue;
      add_by_shard(gemm, rest, Transport::pull, RouteKind::mesh);
      add_by_shard(gemm, rest, Transport::push, RouteKind::ring);
    }
  }

  void add_nccl(const GemmMachine& machine) {
    const GemmMachine rest = machine.leaving(kNcclMultiprocessors);
    if (rest.multiprocessors < kLeastRelayed - kRelayMultiprocessors) return;
    for (const GemmPlan& gemm : gemms(p_.m, rest))
      // CTAs are dealt one a multiprocessor first.
      if (can_be_cut(gemm) && fits_beside_copies(gemm.tile) &&
          gemm.workers * gemm.tile.cluster() <= rest.multiprocessors)
        add_by_shard(gemm, rest, Transport::nccl, RouteKind::mesh);
  }

  std::vector<AgGemmWay> sorted() {
    std::ranges::stable_sort(plans_, {}, &AgGemmWay::predicted_us);
    return std::move(plans_);
  }

 private:
  /// Of the widest weight, on m rows.
  [[nodiscard]] std::vector<GemmPlan> of_widest(Index m, const GemmMachine& machine) const {
    auto all = candidates_by_shard(product_of(p_, widest_product(p_), m), machine);
    std::erase_if(all, [](const GemmPlan& g) { return !can_gather(g.tile); });
    return all;
  }
  /// On m rows. Tiles that take all weights at once are for as many columns as they make of them.
  [[nodiscard]] std::vector<GemmPlan> gemms(Index m, const GemmMachine& machine) const {
    auto all = of_widest(m, machine);
    std::erase_if(all, [&](const GemmPlan& g) { return is_merged(p_, g.tile); });
    std::set<Index> widths;
    for (const GemmTile& t : plans_of(machine.architecture).tiles)
      if (is_merged(p_, t)) widths.insert(merged_product(p_, t, m).n);
    for (const Index n : widths)
      for (const GemmPlan& g : candidates_by_shard({m, n, p_.k, p_.dtype}, machine))
        if (is_merged(p_, g.tile) && can_gather(g.tile) && merged_product(p_, g.tile, m).n == n)
          all.push_back(g);
    return all;
  }
  /// Whether its tiles may begin anew in every shard.
  static bool can_be_cut(const GemmPlan& gemm) {
    return gemm.split_tiles == 0 && (!gemm.tile.swapped || is_across(gemm.tile));
  }

  /// The plan, and those that share k-steps of own tiles, since shards' last wave is not full.
  [[nodiscard]] std::vector<GemmPlan> with_shared(const GemmPlan& gemm) const {
    std::vector<GemmPlan> all{gemm};
    const auto tiles = static_cast<int>(tiles_by_shard(gemm));
    const int rest = tiles % gemm.workers;
    if (gemm.by_neighbours || rest == 0 || tiles < gemm.workers) return all;
    if (p_.m > kMostSentRows && tiles > kMostWavesShared * gemm.workers) return all;
    for (const int split : {rest, rest + gemm.workers}) {
      if (split > tiles / p_.ranks || !are_counted(split, p_.k)) break;
      all.push_back(gemm);
      all.back().split_tiles = split;
    }
    return all;
  }

  void add(AgGemmWay plan, const Travel& way, double us) {
    plan.transport = way.transport;
    plan.route = way.route;
    plan.chunk_rows = way.chunk_rows;
    plan.predicted_us = us;
    plans_.push_back(std::move(plan));
  }

  void add_by_shard(const GemmPlan& gemm, const GemmMachine& machine, Transport transport,
                    RouteKind route) {
    const bool sent = row_of(transport).by_workers();
    std::vector<double> left(static_cast<std::size_t>(p_.ranks));
    for (int i = 1; i < p_.ranks; ++i)
      left[static_cast<std::size_t>(i)] = left_us(gemm, i, machine);
    const double all_apart = by_shard_us(gemm, p_.ranks, machine);
    const double in_three = p_.ranks > 3 ? by_shard_us(gemm, 3, machine) : all_apart;
    const double together = p_.ranks > 2 ? by_shard_us(gemm, 2, machine) : all_apart;
    for (const Index parts : {1, 2, 4}) {
      const Index cut = schedule::max_of(1, schedule::ceil_div(most_rows_, parts));
      if (parts > 1 && (sent || cut * row_bytes_ < kLeastCopy)) break;
      const Index chunk_rows =
          sent ? sent_chunk_rows(most_rows_, p_.ranks - 1, gemm.ctas(tiles_by_shard(gemm))) : cut;
      const Travel way{transport, route, chunk_rows};
      const Gathering gathering{way, most_rows_, row_bytes_, p_.ranks};
      const double chunk = left_us(gemm, 1 / static_cast<double>(gathering.chunks()), machine);
      const auto apart = [&](int shards, double us) {
        add({.gemm = gemm, .apart = shards}, way,
            gathered_us(hardware_, gathering, {us, left, chunk}, shards));
      };
      apart(1, together);
      if (!sent && p_.ranks > 3) apart(2, in_three);
      if (sent ? p_.m > kMostPushRows : p_.ranks > 2) apart(p_.ranks, all_apart);
      if (gemm.split_tiles == 0 && (row_of(transport).pushes() || sent))
        add_joined(gemm, gathering, {all_apart, left, chunk}, machine);
    }
  }

  /// Shards that join the own one: behind as many waves of tiles as have ended when they come.
  void add_joined(const GemmPlan& gemm, const Gathering& gathering, ShardProducts products,
                  const GemmMachine& machine) {
    if (p_.ranks == 1) return;
    const Index tiles = tiles_by_shard(gemm);
    const double wave_us =
        products.us / static_cast<double>(schedule::ceil_div(tiles, gemm.workers));
    std::vector<int> after;
    for (int i = 1; i < p_.ranks; ++i) {
      const double waves = std::ceil(arrival_us(hardware_, gathering, i) / wave_us);
      after.push_back(static_cast<int>(std::min(waves * gemm.workers, static_cast<double>(tiles))));
    }
    // Not where they join after all others are done: that is the plan with them apart.
    const double alone = static_cast<double>(after.front()) * p_.ranks / static_cast<double>(tiles);
    if (alone >= 1) return;
    products.us = by_shard_us(gemm, 1 + alone, machine);
    add({.gemm = gemm, .joins = std::move(after)}, gathering.way,
        gathered_us(hardware_, gathering, products, p_.ranks));
  }

  void add_whole(const GemmPlan& gemm, const GemmMachine& machine) {
    const AgGemmWay plan{.gemm = gemm, .whole = true};
    // Own rows are sent to the own slot, too.
    const Travel way{Transport::store, RouteKind::mesh,
                     sent_chunk_rows(most_rows_, p_.ranks, gemm.ctas(tiles_of(plan, p_)))};
    add(plan, way,
        products_us(p_, plan, machine) + hardware_.call_us +
            arrival_us(hardware_, {way, most_rows_, row_bytes_, p_.ranks}, p_.ranks - 1));
  }

  /// The rows first, the product behind them.
  void add_exchanged(const GemmPlan& gemm, const GemmMachine& machine) {
    AgGemmWay plan{.gemm = gemm, .whole = true, .path = Path::unfused};
    const double products = products_us(p_, plan, machine);
    const Travel way{Transport::store, RouteKind::mesh, schedule::max_of(1, most_rows_)};
    for (const auto& [lines, us] : exchanges(machine)) {
      plan.lines = lines;
      add(plan, way, products + us);
    }
  }

  /// Whether by lines, and what they take.
  const std::vector<std::pair<bool, double>>& exchanges(const GemmMachine& machine) {
    if (!exchanges_.empty()) return exchanges_;
    for (const bool lines : {true, false})
      if (!lines || may_be_lines(p_, collective_machine(machine)))
        exchanges_.emplace_back(lines, gathering_us(p_, lines, machine));
    return exchanges_;
  }

  /// Each of its products reads the weight, which its prediction knows.
  void add_medium(const GemmPlan& gemm, const GemmMachine& machine) {
    if (gemm.tile.swapped && !is_across(gemm.tile)) return;
    if (!is_plainly_walked(gemm, most_rows_)) return;
    const Travel way{Transport::push, RouteKind::mesh, schedule::max_of(1, most_rows_)};
    const double shard = gemm.predicted_us + behind_first_us(p_, gemm, most_rows_, machine);
    const double last =
        arrival_us(hardware_, {way, most_rows_, row_bytes_, p_.ranks}, p_.ranks - 1);
    add({.gemm = gemm, .path = Path::medium}, way,
        std::max(shard * p_.ranks, last + shard) + hardware_.copy_us + hardware_.flag_us);
  }

  [[nodiscard]] Index tiles_by_shard(const GemmPlan& gemm) const {
    return plan::tiles_by_shard(p_, gemm.tile, split_of(p_, borders_));
  }

  /// Its products with tiles that end at the borders of shards, in so many walks.
  [[nodiscard]] double by_shard_us(const GemmPlan& gemm, double walks,
                                   const GemmMachine& machine) const {
    return cut_products_us(p_, gemm, {tiles_by_shard(gemm), walks}, machine);
  }

  /// Of tiles of so many shards, the last ones, in the first kernel; and of the others behind it.
  [[nodiscard]] double left_us(const GemmPlan& gemm, double shards,
                               const GemmMachine& machine) const {
    const double part = shards / p_.ranks;
    const auto of = [&](Index all) {
      return schedule::max_of(1, static_cast<Index>(std::ceil(part * static_cast<double>(all))));
    };
    GemmPlan unshared = gemm;
    unshared.split_tiles = 0;
    return product_us(first_product(p_, gemm.tile, of(p_.m)), unshared, {of(tiles_by_shard(gemm))},
                      machine) -
           hardware_.fixed_us + behind_first_us(p_, gemm, p_.m, machine);
  }

  const Problem& p_;
  const Hardware& hardware_;
  std::vector<Index> borders_;
  Index most_rows_;  ///< of a shard
  Index row_bytes_;
  std::vector<AgGemmWay> plans_;
  std::vector<std::pair<bool, double>> exchanges_;
};

void require_gather(const Problem& problem) {
  require(problem.op == Op::ag_gemm, "ag_gemm: op: got {}, expected ag_gemm", name_of(problem.op));
  check_problem(problem);
  require(problem.m > 0, "ag_gemm: m: got 0, expected at least 1 row to plan for");
  require(problem.ranks <= schedule::kMaxGpuRanks, "ag_gemm: ranks: got {}, expected at most {}",
          problem.ranks, schedule::kMaxGpuRanks);
}

}  // namespace

std::vector<AgGemmWay> ag_gemm_candidates(const Problem& problem, const GemmMachine& machine) {
  require_gather(problem);
  GatherCandidates all(problem, machine);
  all.add_all(machine);
  return all.sorted();
}

std::vector<AgGemmWay> ag_gemm_nccl_candidates(const Problem& problem, const GemmMachine& machine) {
  require_gather(problem);
  GatherCandidates all(problem, machine);
  all.add_nccl(machine);
  return all.sorted();
}

}  // namespace tilelace::plan
