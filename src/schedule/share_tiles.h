// SPDX-License-Identifier: Apache-2.0
// How finished tiles of a fused gemm_ar (share_order.h) get to all ranks: the owner of a tile
// stores it in the slot of every peer and raises the tile's flag there.
//
//   collect  after the GEMM: copies a peer's tile from the slot to the caller once its flag is
//            raised
//
// The GEMM waits only for partials, and collecting waits only for the peers' GEMMs. So there is no
// deadlock if all workers of a GEMM run at the same time and collecting comes after the GEMM.
#pragma once
#include "schedule/make_share_order.h"
#include "schedule/shared_parts.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// One rank's call, for the checker and CPU ranks. Here a tile is `tile_m` rows of one column of
/// tiles and has one part. Some actors run the GEMM, the others collect; a single actor does both.
struct SharedTiles {
  RowSplit split;
  int tile_m = 1;
  int actors = 1;
  GemmWorkOf<ShareOrder> work;
  ShareFlags flags;

  [[nodiscard]] constexpr const ShareOrder& order() const { return work.order; }
  /// Rows whose tiles `rank` finishes.
  [[nodiscard]] constexpr RowRange shard(int rank) const {
    return work.order.owner_cols > 0 ? RowRange{0, split.m} : split.shard(rank);
  }
  [[nodiscard]] static constexpr int products(int actors) { return actors > 1 ? actors / 2 : 1; }
  /// The flag on the own rank that says that this worker's GEMM has ended.
  [[nodiscard]] constexpr int over(int worker) const { return flags.end(work.order) + worker; }
  [[nodiscard]] constexpr int num_flags() const { return over(work.workers); }
};

constexpr SharedTiles make_shared_tiles(const RowSplit& split, const ShareOrder& order, int tile_m,
                                        int actors) {
  const int partials = order.num_partials();
  return {split, tile_m, actors, make_gemm_work(order, SharedTiles::products(actors), 1, 0),
          ShareFlags{1, partials}};
}

struct ShareTile {
  int owner = 0, block = 0;
  int index = 0;  ///< index among all finished tiles
  RowRange rows;
  int col = 0;
};

/// The verbs of run_gemm_math and run_collect for one actor, made of the verbs of verbs.h.
template <class Verbs>
class ShareVerbs {
 public:
  ShareVerbs(const SharedTiles& tiles, Verbs& verbs) : s_(tiles), o_(tiles.order()), v_(verbs) {}

  void admit() {
    if (!admitted_) v_.admit();
    admitted_ = true;
  }
  void signal(int peer, int flag) { v_.signal(peer, flag); }
  void wait_for(const SharedPart& p) { v_.wait(p.flag); }
  void deliver(const SharedPart& p) { v_.deliver(tile(p.cell)); }

  // Verbs of run_gemm_math.
  void skip(GemmSegment /*s*/) {}
  void multiply(GemmSegment s) { v_.compute(tile(o_.cell(s.tile))); }
  void give_partial(int /*round*/) {}
  void add_partial(int /*worker*/, int /*round*/) {}
  /// Peers are told of a finished tile only after the next tile's GEMM: the finished tile's stores
  /// have arrived by then, so no worker waits for them.
  void store(GemmCell c) {
    tell();
    admit();
    const ShareTile t = tile(c);
    if (!o_.own(c.section)) {
      v_.store_partial(t, t.owner);
      return v_.signal(t.owner, o_.partial(o_.rank, c));
    }
    for (int i = 1; i < o_.ranks; ++i) v_.wait(o_.partial((o_.rank + i) % o_.ranks, c));
    v_.reduce(t);
    v_.store(t);
    const int flag = s_.flags.shared(o_, o_.rank, c);
    for (int i = 1; i < o_.ranks; ++i) v_.store_result(t, (o_.rank + i) % o_.ranks);
    untold_ = flag;
  }
  void end_product(int worker) {
    tell();
    admit();
    v_.signal(o_.rank, s_.over(worker));
  }
  void await_product() {
    for (int w = 0; w < s_.work.workers; ++w) v_.wait(s_.over(w));
  }

 private:
  [[nodiscard]] ShareTile tile(GemmCell c) const {
    const int owner = o_.section[c.section].owner;
    const Index begin = o_.begin(c.section) + Index{c.row} * s_.tile_m;
    return {owner,
            o_.block(c.section),
            o_.partial(owner, c),
            {begin, min_of(begin + s_.tile_m, o_.end(c.section))},
            o_.first_col(c.section) + c.col};
  }
  void tell() {
    for (int i = 1; i < o_.ranks && untold_ >= 0; ++i) v_.signal((o_.rank + i) % o_.ranks, untold_);
    untold_ = -1;
  }

  const SharedTiles& s_;
  const ShareOrder& o_;
  Verbs& v_;
  bool admitted_ = false;
  int untold_ = -1;
};

/// The role `copy` does nothing: the owner of a tile stores it at all ranks.
template <class Verbs>
void run_copy(const SharedTiles& /*s*/, Verbs& /*v*/) {}

/// The first actors run the GEMM, the later actors collect.
template <class Verbs>
void run_compute(const SharedTiles& s, int worker, Verbs& v) {
  const int products = s.work.workers;
  ShareVerbs<Verbs> verbs(s, v);
  if (worker == 0) signal_headers(s.order().ranks, s.order().rank, v);
  if (worker < products) {
    run_gemm_math(s.work, worker, 0, 1, verbs);
    verbs.end_product(worker);
    if (s.actors > 1) return;
  }
  verbs.await_product();
  const int collectors = s.actors > 1 ? s.actors - products : 1;
  run_collect(s.order(), s.flags, s.actors > 1 ? worker - products : 0, collectors, verbs);
}

}  // namespace tilelace::schedule
