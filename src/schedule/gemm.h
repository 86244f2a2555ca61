// SPDX-License-Identifier: Apache-2.0
// The GEMM on one device: the order of its tiles, and how workers share k-steps if there are too
// few tiles or the last wave is not full. A worker is a cluster of CTAs, and a tile is what that
// cluster computes together.
//
// The first `split_tiles` tiles are shared: their k-steps are laid end to end, and each worker
// takes an equal stretch. If a stretch begins inside a tile, its first segment is a tail, a partial
// for the tile's first worker. If a stretch ends inside a tile, its last segment is the head, which
// adds the tails in worker order and stores the tile. Tails are computed first and wait for
// nothing, so no head waits for ever. Tiles that are not shared are taken round robin.
//
// Shared tiles may come in two rounds: every worker takes a stretch of the first round's tiles,
// then a stretch of the second round's tiles. The tiles, which would otherwise all end together,
// end in two halves, and the first half's results are sent while the second half is computed.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::schedule {

struct GemmCell {
  int row, col;     ///< counted in tiles
  int section = 0;  ///< for orders with several sections (schedule/gather_order.h)
};

/// Cuts the grid of tiles into groups in one direction. Groups are walked in the other direction,
/// alternately forwards and backwards, so that a group begins with operands in L2. In a group,
/// blocks of `wide` x `deep` tiles are walked together, so that workers share both operands.
struct GemmOrder {
  int rows = 0;  ///< number of rows of tiles
  int cols = 0;  ///< number of columns of tiles
  int group = 1;
  bool along_cols = false;
  int wide = 1 << 20;  ///< tiles of a block in the direction that is cut into groups
  int deep = 1;        ///< tiles of a block in the other direction

  [[nodiscard]] TILELACE_HD constexpr int tiles() const { return rows * cols; }

  [[nodiscard]] TILELACE_HD constexpr GemmCell cell(int t) const {
    const int fast = along_cols ? cols : rows;
    const int slow = along_cols ? rows : cols;
    const int g = t / (group * slow);
    int left = t - g * group * slow;
    const int width = least(group, fast - g * group);
    const int strip = left / (width * deep);
    left -= strip * width * deep;
    const int height = least(deep, slow - strip * deep);
    const int block_width = least(wide, width);
    const int block = left / (block_width * height);
    left -= block * block_width * height;
    const int last_width = least(block_width, width - block * block_width);
    const int down = left / last_width;
    const int f = g * group + block * block_width + (left - down * last_width);
    const int across = strip * deep + down;
    const int s = (g & 1) != 0 ? slow - 1 - across : across;
    return along_cols ? GemmCell{s, f} : GemmCell{f, s};
  }

 private:
  TILELACE_HD static constexpr int least(int a, int b) { return a < b ? a : b; }
};

/// k-steps [begin, end) of a tile.
struct GemmSegment {
  int tile = 0;
  int begin = 0;
  int end = 0;
  [[nodiscard]] TILELACE_HD constexpr int steps() const { return end - begin; }
};

/// `Order` has tiles(), the number of tiles; cell(t), the place of the t-th tile; and kInRounds if
/// shared tiles may come in rounds (kernels of other orders have no registers for rounds).
template <class Order>
struct GemmWorkOf {
  static constexpr bool kInRounds = requires { requires Order::kInRounds; };
  Order order;
  int workers = 1;
  int k_steps = 1;      ///< k-steps of a tile; at least 1
  int split_tiles = 0;  ///< number of shared tiles, which are the first ones
  int round_tiles = 0;  ///< shared tiles per round: all of them, or a divisor of split_tiles
  int share = 0;        ///< k-steps of a worker's stretch per round, without `longer`
  int longer = 0;       ///< the first `longer` workers have one k-step more

  [[nodiscard]] TILELACE_HD constexpr int stretch(int worker) const {
    return share + (worker < longer ? 1 : 0);
  }
  [[nodiscard]] TILELACE_HD constexpr int stretch_begin(int worker) const {
    return worker * share + (worker < longer ? worker : longer);
  }
};

using GemmWork = GemmWorkOf<GemmOrder>;

/// Makes a GemmWorkOf with its derived fields. split_tiles * k_steps must fit 31 bits; `rounds`
/// must divide split_tiles.
template <class Order>
constexpr GemmWorkOf<Order> make_gemm_work(const Order& order, int workers, int k_steps,
                                           int split_tiles, int rounds = 1) {
  const int round_tiles = split_tiles / rounds;
  const int total = round_tiles * k_steps;
  return {order, workers, k_steps, split_tiles, round_tiles, total / workers, total % workers};
}

/// The segments of one worker, in order.
class GemmSegments {
 public:
  template <class Work>
  TILELACE_HD constexpr GemmSegments(const Work& work, int worker)
      : at_(work.stretch_begin(worker)),
        end_(at_ + work.stretch(worker)),
        whole_(work.split_tiles + worker) {}

  template <class Work>
  TILELACE_HD constexpr bool next(const Work& work, GemmSegment& s) {
    if constexpr (Work::kInRounds)
      if (at_ == end_ && (round_ + 1) * work.round_tiles < work.split_tiles) {
        end_ += work.round_tiles * work.k_steps;
        at_ = end_ - work.stretch(whole_ - work.split_tiles);
        ++round_;
      }
    if (at_ < end_) {
      const int tile = at_ / work.k_steps;
      const int begin = at_ - tile * work.k_steps;
      const int left = begin + (end_ - at_);
      s = {tile, begin, left < work.k_steps ? left : work.k_steps};
      at_ += s.steps();
      return true;
    }
    if (whole_ >= work.order.tiles()) return false;
    s = {whole_, 0, work.k_steps};
    whole_ += work.workers;
    return true;
  }

  /// The round of the segment that next() gave last, if that segment's tile is shared.
  [[nodiscard]] TILELACE_HD constexpr int round() const { return round_; }

 private:
  int at_;
  int end_;
  int whole_;
  int round_ = 0;
};

/// The role `math` of the GEMM. lanes > 1: a worker's warpgroups alternate between segments
/// (ping-pong), and `lane` is this warpgroup; 1: all warpgroups work on every segment. Verbs:
/// skip(segment) of another lane; multiply(segment); store(cell); give_partial(round) keeps the
/// accumulator for the tile's head; add_partial(giver, round) adds what worker `giver` kept.
template <class Work, class Verbs>
TILELACE_ROLE void run_gemm_math(const Work& work, int worker, int lane, int lanes, Verbs& v) {
  GemmSegments segments(work, worker);
  GemmSegment s;
  for (int turn = 0; segments.next(work, s); turn = turn + 1 == lanes ? 0 : turn + 1) {
    if (turn != lane) {
      v.skip(s);
      continue;
    }
    v.multiply(s);
    if (s.begin != 0) {
      v.give_partial(segments.round());
      continue;
    }
    int giver = worker;
    for (int left = work.k_steps - s.end; left > 0; left -= work.stretch(giver))
      v.add_partial(++giver, segments.round());
    v.store(work.order.cell(s.tile));
  }
}

/// The role `load` of the GEMM. Verb: load(cell, segment).
template <class Work, class Verbs>
TILELACE_ROLE void run_gemm_load(const Work& work, int worker, Verbs& v) {
  GemmSegments segments(work, worker);
  GemmSegment s;
  while (segments.next(work, s)) v.load(work.order.cell(s.tile), s);
}

}  // namespace tilelace::schedule
