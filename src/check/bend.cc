// SPDX-License-Identifier: Apache-2.0
// Mutants of the orders that kernels walk: one function of an order bent, under the loops as they
// are.
#include "check/bend.h"

#include <algorithm>
#include <utility>

#include "check/lists.h"

namespace tilelace::check {

namespace {

using schedule::GemmCell;

/// Flags that an order waits for.
struct Flags {
  std::vector<int> all;
  void wait(int flag) { all.push_back(flag); }
};

/// Of GatherOrder, or for more ranks.
template <class Order>
struct BentGather : Order {
  Mutant mutant = Mutant::none;
  bool joined = false;

  [[nodiscard]] int tiles() const {
    const schedule::GatherWalk& last = this->walked[std::max(this->walks - 1, 0)];
    const bool late = joined && this->walks > 0 && last.first_section > 0;
    return mutant == Mutant::missed_columns && late ? last.first_tile : Order::tiles();
  }
  [[nodiscard]] GemmCell cell(int t) const {
    GemmCell c = Order::cell(mutant == Mutant::doubled_cell && t == 1 ? 0 : t);
    if (mutant == Mutant::wrong_section && c.section > 0) --c.section;
    return c;
  }
  template <class Verbs>
  void wait_for_rows(int section, int first, int last, Verbs& v) const {
    Flags flags;
    Order::wait_for_rows(section, first, last, flags);
    if (mutant == Mutant::missed_chunk && !flags.all.empty()) flags.all.pop_back();
    if (mutant == Mutant::own_awaited && !this->whole && section == 0)
      for (int row = first; row < last; ++row) flags.wait(flag(0, row));
    if (mutant == Mutant::own_unawaited)
      std::erase_if(flags.all,
                    [&](int f) { return f / this->max_chunks == this->shard[0].source; });
    for (const int f : flags.all) v.wait(mutant == Mutant::wrong_chunk ? before(f) : f);
  }

 private:
  [[nodiscard]] int flag(int i, int row) const {
    const schedule::GatherShard& of = this->shard[i];
    return of.source * this->max_chunks + (row - of.begin) / this->chunk_rows;
  }
  /// The flag of the chunk before. (That of the one behind it says that both are there, where they
  /// come one after the other.)
  [[nodiscard]] int before(int f) const { return f % this->max_chunks == 0 ? f : f - 1; }
};

/// Of ReduceOrder or PairOrder.
template <class Order>
struct BentReduce : Order {
  Mutant mutant = Mutant::none;

  [[nodiscard]] GemmCell cell(int t) const {
    if (mutant == Mutant::own_first) t = (t + this->first_tile[this->walks - 1]) % Order::tiles();
    GemmCell c = Order::cell(mutant == Mutant::doubled_cell && t == 1 ? 0 : t);
    if (mutant == Mutant::wrong_section && c.section > 0) --c.section;
    return c;
  }
  [[nodiscard]] int partial(int source, GemmCell c) const {
    if (mutant == Mutant::clashing_partial) c.col = 0;
    return Order::partial(source, c);
  }
  /// Of pairs.
  int enter(GemmCell& c, int second) const {
    return Order::enter(c, mutant == Mutant::pair_in_one_shard ? 0 : second);
  }
};

template <class Tiles>
std::vector<StepList> walked_lists(const Tiles& tiles) {
  return lists_of(static_cast<int>(tiles.workers), [&](int actor, auto& verbs) {
    actor == 0 ? run_copy(tiles, verbs) : run_compute(tiles, actor - 1, verbs);
  });
}

template <class Order>
std::vector<StepList> bent_lists(Mutant mutant, const CallSpec& spec,
                                 const schedule::GatherTiles<Order>& tiles) {
  schedule::GatherTiles<BentGather<Order>> bent;
  static_cast<schedule::AgGemm&>(bent) = static_cast<const schedule::AgGemm&>(tiles);
  bent.across = tiles.across;
  const BentGather<Order> order{tiles.order(), mutant, spec.walk.apart == 0};
  bent.work = schedule::make_gemm_work(order, tiles.work.workers, 1, 0);
  return walked_lists(bent);
}

template <class Order>
std::vector<StepList> bent_lists(Mutant mutant, const CallSpec& /*spec*/,
                                 const schedule::ReduceTiles<Order>& tiles) {
  schedule::ReduceTiles<BentReduce<Order>> bent;
  static_cast<schedule::GemmReduce&>(bent) = static_cast<const schedule::GemmReduce&>(tiles);
  const BentReduce<Order> order{tiles.order(), mutant};
  bent.work = schedule::make_gemm_work(order, tiles.work.workers, 1, 0);
  return walked_lists(bent);
}

}  // namespace

bool bend(Mutant mutant, const CallPlan& plan, int rank, std::vector<StepList>& lists) {
  const CallSpec& s = plan.spec();
  if (s.exchange || row_of(s.op).shares || s.unfused || s.straddle || s.cols < 1) return false;
  auto bent = plan.visit(rank, [&](const auto& tiles) { return bent_lists(mutant, s, tiles); });
  const bool changed = bent != lists;
  lists = std::move(bent);
  return changed;
}

}  // namespace tilelace::check
