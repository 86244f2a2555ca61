// SPDX-License-Identifier: Apache-2.0
// One rank's gemm_rs or gemm_ar as CPU ranks, the checker and the simulator run it. Copies are as
// in GemmReduce; tiles of a gemm_rs are in the order of a GEMM kernel (reduce_order.h). With
// transport `store`, partials have the same indices as in kernels.
#pragma once
#include "schedule/gemm_reduce.h"
#include "schedule/make_reduce_order.h"

namespace tilelace::schedule {

template <class Order>
struct ReduceTiles : GemmReduce {
  /// Whether the two CTAs of a cluster are two workers here. If a rank has only one worker, that
  /// worker plays both CTAs.
  static constexpr bool kPairs = requires { requires Order::kPairs; };
  GemmWorkOf<Order> work;

  [[nodiscard]] constexpr const Order& order() const { return work.order; }
  /// The most partials that a rank receives from each source.
  [[nodiscard]] constexpr int of_source() const { return order().max_tiles * (kPairs ? 2 : 1); }
  /// Index of `source`'s partial for the tile of cell c or, with pairs, for CTA tile `row` (0 or 1)
  /// of cell c.
  [[nodiscard]] constexpr int number(int source, GemmCell c, int row) const {
    return kPairs ? 2 * order().partial(source, c) + row : order().partial(source, c);
  }
  [[nodiscard]] constexpr ReduceTile at(GemmCell c, int row) const {
    const Order& o = order();
    const Index band = kPairs ? 2 * c.row + row : c.row;
    const Index end = o.end(c.section), begin = min_of(o.begin(c.section) + band * tile_m, end);
    const RowRange rows{begin, min_of(begin + tile_m, end)};
    return {0, o.section[c.section].owner, numbered() ? number(rank, c, row) : band * cols + c.col,
            rows, c.col};
  }
};

/// `walk`: how tiles are walked; its rows and columns are replaced by the values of the call.
/// kMost: the most ranks.
template <int kMost>
constexpr ReduceTiles<ReduceOrderOf<kMost>> make_reduce_tiles(const GemmReduce& s, GemmOrder walk,
                                                              bool together = false) {
  ReduceTiles<ReduceOrderOf<kMost>> t;
  static_cast<GemmReduce&>(t) = s;
  if (!s.walked()) return t;
  walk.cols = static_cast<int>(s.cols);
  t.work = make_gemm_work(make_reduce_order<kMost>(s, walk, s.tile_m, together), s.workers, 1, 0);
  return t;
}

/// Calls f with the rank's ReduceTiles, whose type is chosen as in with_tiles of gather_tiles.h.
template <int kMost, class F>
decltype(auto) with_tiles(const GemmReduce& s, F&& f) {
  GemmOrder walk;
  walk.group = static_cast<int>(s.raster_group);
  if (s.ranks() <= kMaxGpuRanks) return f(make_reduce_tiles<kMaxGpuRanks>(s, walk));
  return f(make_reduce_tiles<kMost>(s, walk));
}

/// The tiles of shards in pairs, with transport store. s.tile_m: rows of a CTA's tile.
constexpr ReduceTiles<PairOrder> make_pair_tiles(const GemmReduce& s, GemmOrder walk) {
  ReduceTiles<PairOrder> t;
  static_cast<GemmReduce&>(t) = s;
  walk.cols = static_cast<int>(s.cols);
  const int clusters = s.workers > 1 ? s.workers / 2 : 1;
  t.work = make_gemm_work(make_pair_order(s, walk, s.tile_m), clusters, 1, 0);
  return t;
}

namespace detail {

/// Plays a kernel's math role, and its waits for partials, with the verbs of verbs.h.
template <class Order, class Verbs>
class ReduceTileVerbs {
  using Tiles = ReduceTiles<Order>;

 public:
  /// Plays the CTAs `first` to `last` of a cluster.
  ReduceTileVerbs(const Tiles& tiles, Verbs& verbs, int first, int last)
      : s_(tiles), v_(verbs), first_(first), last_(last) {}

  void skip(GemmSegment /*s*/) {}
  void multiply(GemmSegment /*s*/) {}  // store() computes the tile
  void give_partial(int /*round*/) {}
  void add_partial(int /*worker*/, int /*round*/) {}
  void store(GemmCell c) {
    if constexpr (Tiles::kPairs) {
      for (int second = first_; second <= last_; ++second) {
        GemmCell mine = c;
        const int row = s_.order().enter(mine, second);
        take(mine, row);
      }
    } else {
      take(c, 0);
    }
  }
  void admit() {
    if (!admitted_) v_.admit();
    admitted_ = true;
  }

 private:
  void take(GemmCell c, int row) {
    const ReduceTile t = s_.at(c, row);
    if (!s_.numbered()) return run_tile(s_, t, admitted_, v_);
    v_.compute(t);
    if (!s_.order().own(c.section)) {
      v_.store_partial(t, t.owner);
      return v_.signal(t.owner, s_.number(s_.rank, c, row));
    }
    for (int p = 0; p < s_.ranks(); ++p)
      if (p != s_.rank) v_.wait(s_.number(p, c, row));
    v_.reduce(t);
    admit();
    v_.store(t);
  }

  const Tiles& s_;
  Verbs& v_;
  int first_, last_;
  bool admitted_ = false;
};

}  // namespace detail

/// Role `compute`, worker w of s.workers.
template <class Order, class Verbs>
void run_compute(const ReduceTiles<Order>& s, int worker, Verbs& v) {
  if (!s.walked()) return run_compute(static_cast<const GemmReduce&>(s), worker, v);
  constexpr bool kPairs = ReduceTiles<Order>::kPairs;
  const bool cta = kPairs && s.workers > 1;
  const int cluster = cta ? worker / 2 : worker;
  detail::ReduceTileVerbs<Order, Verbs> verbs(s, v, cta ? worker % 2 : 0,
                                              cta      ? worker % 2
                                              : kPairs ? 1
                                                       : 0);
  if (cluster < s.work.workers) run_gemm_math(s.work, cluster, 0, 1, verbs);
  verbs.admit();
}

}  // namespace tilelace::schedule
