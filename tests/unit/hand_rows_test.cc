// SPDX-License-Identifier: Apache-2.0
// Partials that are handed to owners: every rank's part is in every sum once, whoever has how many
// places to run in, nothing is used before it is there, and every flag has one writer.
#include "schedule/hand_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "sum_play.h"

namespace tilelace::schedule {
namespace {

/// Which ranks' parts a place holds.
using Parts = std::multiset<int>;

/// What a step uses must have been told by a flag that its worker has waited for.
class Play : public SumPlay {
 public:
  /// `lost`: the wait that is left out, of all ranks' (the test of the test); -1: none.
  Play(const Sizes& c, std::mt19937& rng, int lost = -1) : SumPlay(c.resident, rng), sizes_(c) {
    for (int r = 0; r < c.split.ranks; ++r) {
      schedules_.push_back(c.schedule(r, SumForm::own_rows));
      const ReduceRows& s = schedules_.back();
      Rank& rank = ranks_.emplace_back();
      for (Index i = 0; i < s.chunks[r]; ++i) rank.sums[i] = {r};
      rank.told.resize(static_cast<std::size_t>(s.workers));
      add_rank(lists_of(s, lost), num_handed_flags(s));
    }
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
    std::vector<std::set<Index>> told;                ///< by worker: flags that it has waited for
    std::map<Index, Parts> sums;                      ///< of own chunks: in the own partial
    std::map<std::pair<int, Index>, Parts> incoming;  ///< ring: of owner and chunk
    std::map<Index, int> finished;
    std::map<std::size_t, Parts> reduced;  ///< by worker
  };

  [[nodiscard]] HandWay way() const { return static_cast<HandWay>(sizes_.kind); }

  std::vector<std::vector<Step>> lists_of(const ReduceRows& s, int lost) {
    HandRows hand;
    static_cast<ReduceRows&>(hand) = s;
    hand.way = way();
    std::vector<std::vector<Step>> lists;
    for (int w = 0; w < s.workers; ++w) {
      Recorder recorder;
      run_hand_rows(hand, w, recorder);
      std::erase_if(recorder.steps, [&](const Step& step) {
        return step.kind == Step::Kind::wait && waits_++ == lost;
      });
      lists.push_back(std::move(recorder.steps));
    }
    return lists;
  }

  void heard(int r, std::size_t worker, Index flag) override {
    ranks_[static_cast<std::size_t>(r)].told[worker].insert(flag);
  }

  void act(int r, const Step& s, std::size_t worker) override {
    if (s.kind == Step::Kind::reduce)
      ranks_[static_cast<std::size_t>(r)].reduced[worker] = reduced(r, s.chunk, worker);
    else if (s.kind == Step::Kind::give)
      give(r, s, worker);
    else
      store(r, s.chunk, worker);
  }

  void give(int r, const Step& s, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    Rank& peer = ranks_[static_cast<std::size_t>(s.peer)];
    if (way() == HandWay::added) {
      if (s.chunk.owner == r || s.peer != s.chunk.owner) complain("added to no owner's");
      peer.sums[s.chunk.index].insert(r);
      return;
    }
    if (s.peer != (r + 1) % sizes_.split.ranks) complain("handed to no neighbour");
    Parts parts = std::exchange(rank.reduced[worker], {});
    if (parts.empty()) parts = {r};
    Parts& to = peer.incoming[{s.chunk.owner, s.chunk.index}];
    if (!to.empty()) complain("a place is written twice");
    to = parts;
  }

  /// Of a chunk, what its worker has been told of, and the own part.
  Parts reduced(int r, const SumChunk& c, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const ReduceRows& s = schedules_[static_cast<std::size_t>(r)];
    const auto told = [&](int from) {
      if (rank.told[worker].count(handed_flag(s, from, c.index)) == 0)
        complain("used without a wait");
    };
    if (way() == HandWay::copied) return {};
    if (way() == HandWay::added) {
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
    if (c.owner != r) complain("a chunk is stored by another rank");
    ++rank.finished[c.index];
    if (way() == HandWay::copied) return;
    Parts all;
    for (int q = 0; q < sizes_.split.ranks; ++q) all.insert(q);
    if (std::exchange(rank.reduced[worker], {}) != all)
      complain("a sum is not of every rank's part once");
  }

  const Sizes sizes_;
  std::vector<ReduceRows> schedules_;
  std::vector<Rank> ranks_;
  int waits_ = 0;
};

TEST(HandRows, AddsEveryPartOnceAndEndsWithAnyResidency) {
  std::mt19937 rng(12);
  for (int i = 0; i < 900; ++i) {
    const Sizes c = random_sizes(rng, [](int /*way*/) { return true; });
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
    Sizes c;
    c.split = {24, 4, nullptr};
    c.kind = static_cast<int>(way);
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
  Sizes c;
  c.split = {100, 4, nullptr};
  c.kind = static_cast<int>(HandWay::copied);
  std::mt19937 rng(1);
  EXPECT_EQ(Play(c, rng).waits(), 0);
}

TEST(HandRows, HasNoMoreFlagsThanASlotHasRoomFor) {
  for (const Index m : {1, 1000, 100000})
    for (const Index chunk_rows : {1, 64}) {
      const ReduceRows s = make_reduce_rows({m, 8, nullptr}, 1, SumForm::own_rows, 5000,
                                            chunk_of_rows(chunk_rows, 5000), 132);
      EXPECT_LE(num_handed_flags(s), 8 * kMaxSumChunks);
      EXPECT_LT(handed_flag(s, 7, s.max_chunks - 1), num_handed_flags(s));
    }
}

}  // namespace
}  // namespace tilelace::schedule
