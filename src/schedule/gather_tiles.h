// SPDX-License-Identifier: Apache-2.0
// One rank's ag_gemm as CPU ranks, the checker and the simulator run it. Copies are as in AgGemm;
// tiles, waits and sends are in the order of a GEMM kernel (gather_order.h, push_order.h).
#pragma once
#include "schedule/make_gather_order.h"

namespace tilelace::schedule {

/// How a kernel walks tiles. Default: by shard, one shard after the other.
struct GatherWalking {
  GemmOrder walk = {};  ///< rows and cols are replaced by those of the call
  int apart = -1;       ///< how many shards are walked one after the other; -1: all
  GatherJoins joins = {};
  bool whole = false;
  bool across = false;  ///< whole walk: the rows of `walk` are columns of the result
};

template <class Order>
struct GatherTiles : AgGemm {
  GemmWorkOf<Order> work;
  bool across = false;

  [[nodiscard]] constexpr const Order& order() const { return work.order; }
  [[nodiscard]] constexpr GatherTile at(GemmCell c) const {
    const Order& o = order();
    const bool turned = o.whole && across;
    const Index begin = o.begin(c.section) + Index{turned ? c.col : c.row} * tile_m;
    const RowRange rows{begin, min_of(begin + tile_m, o.end(c.section))};
    if (!o.whole) return {o.shard[c.section].source, rows, c.col};
    return {-1, rows, turned ? c.row : c.col};
  }
};

/// kMost: the most ranks.
template <int kMost>
constexpr GatherTiles<GatherOrderOf<kMost>> make_gather_tiles(const AgGemm& s,
                                                              const GatherWalking& how) {
  GatherTiles<GatherOrderOf<kMost>> t;
  static_cast<AgGemm&>(t) = s;
  if (!s.walked()) return t;
  GemmOrder walk = how.walk;
  walk.rows = static_cast<int>(ceil_div(s.split.m, s.tile_m));
  walk.cols = static_cast<int>(s.cols);
  t.across = how.whole && how.across;
  if (t.across) walk = {walk.cols, walk.rows, walk.group, walk.along_cols, walk.wide, walk.deep};
  const int apart = how.apart < 0 ? kMost : how.apart;
  const auto order = make_gather_order<kMost>(s, walk, s.tile_m, how.whole, apart, how.joins);
  t.work = make_gemm_work(order, s.workers, 1, 0);
  return t;
}

/// Calls f with the rank's GatherTiles. For up to kMaxGpuRanks ranks their type is the kernels'
/// type; for more ranks their type has room for kMost ranks.
template <int kMost, class F>
decltype(auto) with_tiles(const AgGemm& s, F&& f) {
  GatherWalking how;
  how.walk.group = static_cast<int>(s.raster_group);
  if (s.ranks() <= kMaxGpuRanks) return f(make_gather_tiles<kMaxGpuRanks>(s, how));
  return f(make_gather_tiles<kMost>(s, how));
}

namespace detail {

/// Plays a kernel's load and math roles, one after the other, with the verbs of verbs.h.
template <class Order, class Verbs>
class GatherTileVerbs {
 public:
  GatherTileVerbs(const GatherTiles<Order>& tiles, Verbs& verbs) : s_(tiles), v_(verbs) {}

  void skip(GemmSegment /*s*/) {}
  void multiply(GemmSegment /*s*/) {}  // store() computes the tile
  void give_partial(int /*round*/) {}
  void add_partial(int /*worker*/, int /*round*/) {}
  void store(GemmCell c) {
    const GatherTile t = s_.at(c);
    const auto first = static_cast<int>(t.rows.begin), last = static_cast<int>(t.rows.end);
    s_.order().wait_for_rows(c.section, first, last, v_);
    v_.compute(t);
    admit();
    v_.store(t);
  }
  void admit() {
    if (!admitted_) v_.admit();
    admitted_ = true;
  }

 private:
  const GatherTiles<Order>& s_;
  Verbs& v_;
  bool admitted_ = false;
};

/// Makes PushOrder's sends with the chunk verbs of verbs.h.
template <class Verbs>
class PushVerbs {
 public:
  PushVerbs(const AgGemm& s, Verbs& verbs) : s_(s), v_(verbs) {}

  void push(int peer, Index first, Index last) {
    const Index begin = s_.split.begin(s_.rank);
    const GatherTransfer t{s_.rank, peer, first / s_.chunk_rows, {begin + first, begin + last}};
    peer == s_.rank ? v_.stage(t) : v_.push(t);
  }
  void signal(int peer, Index flag) { v_.signal(peer, flag); }

 private:
  const AgGemm& s_;
  Verbs& v_;
};

}  // namespace detail

template <class Order, class Verbs>
void run_sends(const GatherTiles<Order>& s, int worker, Verbs& v) {
  if (!s.walked()) return run_sends(static_cast<const AgGemm&>(s), worker, v);
  if (!by_workers(s.transport)) return;
  detail::PushVerbs<Verbs> verbs(s, v);
  make_push_order(s, s.order().whole).run(worker, s.workers, verbs);
}

template <class Order, class Verbs>
void run_tiles(const GatherTiles<Order>& s, int worker, Verbs& v) {
  if (!s.walked()) return run_tiles(static_cast<const AgGemm&>(s), worker, v);
  detail::GatherTileVerbs<Order, Verbs> verbs(s, v);
  run_gemm_math(s.work, worker, 0, 1, verbs);
  verbs.admit();
}

/// Role `compute`, worker w of s.workers.
template <class Order, class Verbs>
void run_compute(const GatherTiles<Order>& s, int worker, Verbs& v) {
  run_sends(s, worker, v);
  run_tiles(s, worker, v);
}

}  // namespace tilelace::schedule
