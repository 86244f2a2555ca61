// SPDX-License-Identifier: Apache-2.0
// The sum after the product: every unit of a rank's result is made once, whoever has how many
// places to run in, and every flag has one writer.
#include "schedule/reduce_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace tilelace::schedule {
namespace {

struct Step {
  enum class Kind : std::uint8_t { reduce, deliver, signal, wait };
  Kind kind;
  SumChunk chunk;  ///< reduce, deliver
  int peer = 0;    ///< signal
  Index flag = 0;  ///< signal, wait
};

struct Recorder {
  std::vector<Step> steps;
  void reduce(const SumChunk& c) { steps.push_back({Step::Kind::reduce, c}); }
  void deliver(const SumChunk& c) { steps.push_back({Step::Kind::deliver, c}); }
  void signal(int peer, Index flag) { steps.push_back({Step::Kind::signal, {}, peer, flag}); }
  void wait(Index flag) { steps.push_back({Step::Kind::wait, {}, 0, flag}); }
};

struct Config {
  RowSplit split;
  std::vector<Index> borders;
  SumForm form = SumForm::own_rows;
  Index row_units = 1, chunk_rows = 1;
  int workers = 1, resident = 1;  ///< of a rank
};

Config random_config(std::mt19937& rng) {
  const auto any = [&](Index most) {
    return static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  Config c;
  const int ranks = 1 + static_cast<int>(any(kMaxSumRanks));
  c.form = static_cast<SumForm>(any(3));
  c.row_units = 1 + any(40);
  c.chunk_rows = 1 + any(30);
  c.workers = 1 + static_cast<int>(any(9));
  c.resident = 1 + static_cast<int>(any(c.workers));
  c.split = {any(200), ranks, nullptr};
  if (c.form != SumForm::own_rows || any(2) == 0) return c;
  c.borders = {0};
  for (int r = 0; r < ranks; ++r) c.borders.push_back(c.borders.back() + any(3) * any(50));
  c.split.m = c.borders.back();
  return c;
}

ReduceRows schedule_of(const Config& c, int rank) {
  RowSplit split = c.split;
  if (!c.borders.empty()) split.borders = c.borders.data();
  return make_reduce_rows(split, rank, c.form, c.row_units, c.chunk_rows, c.workers);
}

/// Runs every rank's workers in launch order, `resident` of them at a time, a step each in turn.
class Play {
 public:
  Play(const Config& c, std::mt19937& rng) : rng_(rng) {
    for (int r = 0; r < c.split.ranks; ++r) {
      schedules_.push_back(schedule_of(c, r));
      Rank& rank = ranks_.emplace_back();
      rank.resident = c.resident;
      rank.flags.assign(static_cast<std::size_t>(schedules_.back().num_flags()), false);
      rank.made.assign(static_cast<std::size_t>(c.split.m * c.row_units), 0);
      for (int w = 0; w < schedules_.back().workers; ++w) {
        Recorder recorder;
        run_reduce_rows(schedules_.back(), w, recorder);
        rank.lists.push_back(std::move(recorder.steps));
        rank.at.push_back(0);
      }
    }
  }

  /// Until nobody can go on; what went wrong first.
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
  /// How often each unit of a rank's result was made.
  [[nodiscard]] const std::vector<int>& made(int r) const {
    return ranks_[static_cast<std::size_t>(r)].made;
  }
  [[nodiscard]] const ReduceRows& schedule(int r) const {
    return schedules_[static_cast<std::size_t>(r)];
  }

 private:
  struct Rank {
    int resident = 1;
    std::vector<std::vector<Step>> lists;
    std::vector<std::size_t> at;
    std::vector<bool> flags;
    std::vector<int> made;
    std::set<std::pair<int, Index>> shared;  ///< owner and chunk that are in the slot
  };

  bool turn(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    std::vector<std::size_t> running;
    for (std::size_t w = 0; w < rank.lists.size(); ++w)
      if (rank.at[w] < rank.lists[w].size() && std::ssize(running) < rank.resident)
        running.push_back(w);
    std::shuffle(running.begin(), running.end(), rng_);
    bool moved = false;
    for (const std::size_t w : running) moved = step(r, rank.lists[w][rank.at[w]], w) || moved;
    return moved;
  }

  bool step(int r, const Step& s, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const ReduceRows& own = schedules_[static_cast<std::size_t>(r)];
    switch (s.kind) {
      case Step::Kind::wait:
        if (!rank.flags.at(static_cast<std::size_t>(s.flag))) return false;
        break;
      case Step::Kind::signal: {
        auto& flags = ranks_[static_cast<std::size_t>(s.peer)].flags;
        if (flags.at(static_cast<std::size_t>(s.flag))) trouble_ = "a flag is raised twice";
        flags.at(static_cast<std::size_t>(s.flag)) = true;
        break;
      }
      case Step::Kind::reduce:
        if (s.chunk.owner != r) trouble_ = "a chunk is summed by another rank";
        make(rank, s.chunk);
        for (Rank& peer : ranks_)
          if (own.share) peer.shared.emplace(r, s.chunk.index);
        break;
      case Step::Kind::deliver:
        if (rank.shared.count({s.chunk.owner, s.chunk.index}) == 0)
          trouble_ = "a chunk is delivered before it is there";
        make(rank, s.chunk);
        break;
    }
    ++rank.at[worker];
    return true;
  }

  static void make(Rank& rank, const SumChunk& c) {
    for (Index u = c.units.begin; u < c.units.end; ++u) ++rank.made.at(static_cast<std::size_t>(u));
  }

  std::mt19937& rng_;
  std::vector<ReduceRows> schedules_;
  std::vector<Rank> ranks_;
  std::string trouble_;
};

TEST(ReduceRows, MakesEveryUnitOnceAndEndsWithAnyResidency) {
  std::mt19937 rng(11);
  for (int i = 0; i < 600; ++i) {
    const Config c = random_config(rng);
    Play run(c, rng);
    ASSERT_EQ(run.play(), "") << i;
    ASSERT_TRUE(run.over()) << i << ": somebody waits for ever";
    for (int r = 0; r < c.split.ranks; ++r) {
      const RowRange mine = run.schedule(r).rows[r];
      for (Index u = 0; u < std::ssize(run.made(r)); ++u) {
        const bool wanted = c.form != SumForm::own_rows || (u >= mine.begin && u < mine.end);
        ASSERT_EQ(run.made(r)[static_cast<std::size_t>(u)], wanted ? 1 : 0) << i << " unit " << u;
      }
    }
  }
}

TEST(ReduceRows, HasNoMoreChunksAndFlagsThanASlotHasRoomFor) {
  for (const Index m : {1, 7, 1000, 100000}) {
    for (const Index row_units : {1, 3, 640, 5000}) {
      for (const Index chunk_rows : {1, 2, 64}) {
        const RowSplit split{m, 4, nullptr};
        for (const SumForm form : {SumForm::own_rows, SumForm::all_rows, SumForm::shared_rows}) {
          const ReduceRows s = make_reduce_rows(split, 1, form, row_units, chunk_rows, 132);
          EXPECT_LE(s.max_chunks, kMaxSumChunks);
          EXPECT_EQ(s.max_chunks, *std::max_element(s.chunks, s.chunks + 4));
          EXPECT_LE(s.num_flags(), 4 * kMaxSumChunks);
          EXPECT_LE(s.workers, 132);
          EXPECT_LE(s.workers, std::max<Index>(1, s.max_chunks));
        }
      }
    }
  }
}

TEST(ReduceRows, CutsWideRowsOfFewTokens) {
  // 4 tokens of 8192 columns: 1024 units a row.
  const ReduceRows s = make_reduce_rows({4, 4, nullptr}, 0, SumForm::all_rows, 1024, 1, 132);
  EXPECT_EQ(s.chunk_units, 512);
  EXPECT_EQ(s.chunks[0], 8);
  EXPECT_EQ(s.workers, 8);
}

TEST(ReduceRows, ARankWithoutRowsHasNothingToSum) {
  const Index borders[] = {0, 0, 10};
  const ReduceRows s = make_reduce_rows({10, 2, borders}, 0, SumForm::own_rows, 8, 2, 4);
  EXPECT_EQ(s.chunks[0], 0);
  EXPECT_EQ(s.chunks[1], 5);
  EXPECT_EQ(s.workers, 4);
}

}  // namespace
}  // namespace tilelace::schedule
