// SPDX-License-Identifier: Apache-2.0
// Partials that are handed to owners: every rank's part is in every sum once, whoever has how many
// places to run in, nothing is used before it is there, and every flag has one writer.
#include "schedule/hand_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tilelace::schedule {
namespace {

struct Step {
  enum class Kind : std::uint8_t { reduce, give, store, signal, wait };
  Kind kind;
  SumChunk chunk;  ///< reduce, give, store
  int peer = 0;    ///< signal, give
  Index flag = 0;  ///< signal, wait
};

struct Recorder {
  std::vector<Step> steps;
  void reduce(const SumChunk& c) { steps.push_back({Step::Kind::reduce, c}); }
  void store_partial(const SumChunk& c, int to) { steps.push_back({Step::Kind::give, c, to}); }
  void store(const SumChunk& c) { steps.push_back({Step::Kind::store, c}); }
  void signal(int peer, Index flag) { steps.push_back({Step::Kind::signal, {}, peer, flag}); }
  void wait(Index flag) { steps.push_back({Step::Kind::wait, {}, 0, flag}); }
};

struct Config {
  RowSplit split;
  std::vector<Index> borders;
  HandWay way = HandWay::added;
  Index row_units = 1, chunk_rows = 1;
  int workers = 1, resident = 1;  ///< of a rank
};

Config random_config(std::mt19937& rng) {
  const auto any = [&](Index most) {
    return static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  Config c;
  const int ranks = 1 + static_cast<int>(any(kMaxSumRanks));
  c.way = static_cast<HandWay>(any(3));
  c.row_units = 1 + any(40);
  c.chunk_rows = 1 + any(30);
  c.workers = 1 + static_cast<int>(any(9));
  c.resident = 1 + static_cast<int>(any(c.workers));
  c.split = {any(200), ranks, nullptr};
  if (any(2) == 0) return c;
  c.borders = {0};
  for (int r = 0; r < ranks; ++r) c.borders.push_back(c.borders.back() + any(3) * any(50));
  c.split.m = c.borders.back();
  return c;
}

ReduceRows schedule_of(const Config& c, int rank) {
  RowSplit split = c.split;
  if (!c.borders.empty()) split.borders = c.borders.data();
  return make_reduce_rows(split, rank, SumForm::own_rows, c.row_units, c.chunk_rows, c.workers);
}

/// Which ranks' parts a place holds.
using Parts = std::multiset<int>;

/// Runs every rank's workers in launch order, `resident` of them at a time, a step each in turn.
/// What a step uses must have been told by a flag that its worker has waited for.
class Play {
 public:
  /// `lost`: the wait that is left out, of all ranks' (the test of the test); -1: none.
  Play(const Config& c, std::mt19937& rng, int lost = -1) : config_(c), rng_(rng) {
    for (int r = 0; r < c.split.ranks; ++r) {
      schedules_.push_back(schedule_of(c, r));
      const ReduceRows& s = schedules_.back();
      Rank& rank = ranks_.emplace_back();
      rank.flags.assign(static_cast<std::size_t>(num_handed_flags(s)), false);
      for (Index i = 0; i < s.chunks[r]; ++i) rank.sums[i] = {r};
      for (int w = 0; w < s.workers; ++w) {
        Recorder recorder;
        HandRows hand;
        static_cast<ReduceRows&>(hand) = s;
        hand.way = c.way;
        run_hand_rows(hand, w, recorder);
        for (Step& step : recorder.steps)
          if (step.kind == Step::Kind::wait && waits_++ == lost) step.kind = Step::Kind::store;
        std::erase_if(recorder.steps, [](const Step& step) {
          return step.kind == Step::Kind::store && step.chunk.units.size() == 0;
        });
        rank.lists.push_back(std::move(recorder.steps));
        rank.at.push_back(0);
        rank.told.emplace_back();
      }
    }
  }

  std::string play() {
    for (bool moved = true; moved && trouble_.empty();) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = turn(static_cast<int>(r)) || moved;
    }
    return trouble_;
  }
  [[nodiscard]] bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
      for (std::size_t w = 0; w < r.lists.size(); ++w)
        if (r.at[w] < r.lists[w].size()) return false;
      return true;
    });
  }
  /// Of each of its chunks: how often it was stored.
  [[nodiscard]] const std::map<Index, int>& finished(int r) const {
    return ranks_[static_cast<std::size_t>(r)].finished;
  }
  [[nodiscard]] Index chunks(int r) const {
    return schedules_[static_cast<std::size_t>(r)].chunks[r];
  }
  [[nodiscard]] int waits() const { return waits_; }

 private:
  struct Rank {
    std::vector<std::vector<Step>> lists;
    std::vector<std::size_t> at;
    std::vector<std::set<Index>> told;  ///< by worker: flags that it has waited for
    std::vector<bool> flags;
    std::map<Index, Parts> sums;                      ///< of own chunks: in the own partial
    std::map<std::pair<int, Index>, Parts> incoming;  ///< ring: of owner and chunk
    std::map<Index, int> finished;
    std::map<std::size_t, Parts> reduced;  ///< by worker
  };

  bool turn(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    std::vector<std::size_t> running;
    for (std::size_t w = 0; w < rank.lists.size(); ++w)
      if (rank.at[w] < rank.lists[w].size() && std::ssize(running) < config_.resident)
        running.push_back(w);
    std::shuffle(running.begin(), running.end(), rng_);
    bool moved = false;
    for (const std::size_t w : running) moved = step(r, rank.lists[w][rank.at[w]], w) || moved;
    return moved;
  }

  bool step(int r, const Step& s, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    switch (s.kind) {
      case Step::Kind::wait:
        if (!rank.flags.at(static_cast<std::size_t>(s.flag))) return false;
        rank.told[worker].insert(s.flag);
        break;
      case Step::Kind::signal: {
        auto& flags = ranks_[static_cast<std::size_t>(s.peer)].flags;
        if (flags.at(static_cast<std::size_t>(s.flag))) trouble_ = "a flag is raised twice";
        flags.at(static_cast<std::size_t>(s.flag)) = true;
        break;
      }
      case Step::Kind::reduce: rank.reduced[worker] = reduced(r, s.chunk, worker); break;
      case Step::Kind::give: give(r, s, worker); break;
      case Step::Kind::store: store(r, s.chunk, worker);
    }
    ++rank.at[worker];
    return true;
  }

  void give(int r, const Step& s, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    Rank& peer = ranks_[static_cast<std::size_t>(s.peer)];
    if (config_.way == HandWay::added) {
      if (s.chunk.owner == r || s.peer != s.chunk.owner) trouble_ = "added to no owner's";
      peer.sums[s.chunk.index].insert(r);
      return;
    }
    if (s.peer != (r + 1) % config_.split.ranks) trouble_ = "handed to no neighbour";
    Parts parts = std::exchange(rank.reduced[worker], {});
    if (parts.empty()) parts = {r};
    Parts& to = peer.incoming[{s.chunk.owner, s.chunk.index}];
    if (!to.empty()) trouble_ = "a place is written twice";
    to = parts;
  }

  /// Of a chunk, what its worker has been told of, and the own part.
  Parts reduced(int r, const SumChunk& c, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const ReduceRows& s = schedules_[static_cast<std::size_t>(r)];
    const auto told = [&](int from) {
      if (rank.told[worker].count(handed_flag(s, from, c.index)) == 0)
        trouble_ = "used without a wait";
    };
    if (config_.way == HandWay::copied) return {};
    if (config_.way == HandWay::added) {
      for (int q = 0; q < s.ranks; ++q)
        if (q != r) told(q);
      return rank.sums[c.index];
    }
    Parts parts{r};
    if (s.ranks == 1) return parts;
    told(c.owner);
    parts.merge(Parts(rank.incoming[{c.owner, c.index}]));
    return parts;
  }

  void store(int r, const SumChunk& c, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (c.owner != r) trouble_ = "a chunk is stored by another rank";
    ++rank.finished[c.index];
    if (config_.way == HandWay::copied || !trouble_.empty()) return;
    Parts all;
    for (int q = 0; q < config_.split.ranks; ++q) all.insert(q);
    if (std::exchange(rank.reduced[worker], {}) != all)
      trouble_ = "a sum is not of every rank's part once";
  }

  const Config config_;
  std::mt19937& rng_;
  std::vector<ReduceRows> schedules_;
  std::vector<Rank> ranks_;
  std::string trouble_;
  int waits_ = 0;
};

TEST(HandRows, AddsEveryPartOnceAndEndsWithAnyResidency) {
  std::mt19937 rng(12);
  for (int i = 0; i < 900; ++i) {
    const Config c = random_config(rng);
    Play run(c, rng);
    ASSERT_EQ(run.play(), "") << i;
    ASSERT_TRUE(run.over()) << i << ": somebody waits for ever";
    for (int r = 0; r < c.split.ranks; ++r) {
      ASSERT_EQ(std::ssize(run.finished(r)), run.chunks(r)) << i;
      for (const auto& [chunk, times] : run.finished(r)) ASSERT_EQ(times, 1) << i << " " << chunk;
    }
  }
}

TEST(HandRows, NeedsEveryOneOfItsWaits) {
  std::mt19937 rng(13);
  for (const HandWay way : {HandWay::added, HandWay::ring}) {
    Config c;
    c.split = {24, 4, nullptr};
    c.way = way;
    c.row_units = 8;
    c.workers = c.resident = 2;
    c.chunk_rows = 2;
    const int waits = Play(c, rng).waits();
    EXPECT_GT(waits, 30);
    for (int lost = 0; lost < waits; ++lost)
      EXPECT_EQ(Play(c, rng, lost).play(), "used without a wait") << lost;
  }
}

TEST(HandRows, CopiedPartialsAreWaitedForByNobody) {
  Config c;
  c.split = {100, 4, nullptr};
  c.way = HandWay::copied;
  std::mt19937 rng(1);
  EXPECT_EQ(Play(c, rng).waits(), 0);
}

TEST(HandRows, HasNoMoreFlagsThanASlotHasRoomFor) {
  for (const Index m : {1, 1000, 100000})
    for (const Index chunk_rows : {1, 64}) {
      const ReduceRows s =
          make_reduce_rows({m, 8, nullptr}, 1, SumForm::own_rows, 5000, chunk_rows, 132);
      EXPECT_LE(num_handed_flags(s), 8 * kMaxSumChunks);
      EXPECT_LT(handed_flag(s, 7, s.max_chunks - 1), num_handed_flags(s));
    }
}

}  // namespace
}  // namespace tilelace::schedule
