// SPDX-License-Identifier: Apache-2.0
// The sum after the product: every unit of a rank's result is made once, whoever has how many
// places to run in, and every flag has one writer.
#include "schedule/reduce_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "sum_play.h"

namespace tilelace::schedule {
namespace {

class Play : public SumPlay {
 public:
  Play(const Sizes& c, std::mt19937& rng) : SumPlay(c.resident, rng) {
    for (int r = 0; r < c.split.ranks; ++r) {
      schedules_.push_back(c.schedule(r));
      results_.emplace_back().made.assign(static_cast<std::size_t>(c.split.m * c.row_units), 0);
      std::vector<std::vector<Step>> lists;
      for (int w = 0; w < schedules_.back().workers; ++w) {
        Recorder recorder;
        run_reduce_rows(schedules_.back(), w, recorder);
        lists.push_back(std::move(recorder.steps));
      }
      add_rank(std::move(lists), schedules_.back().num_flags());
    }
  }

  /// How often each unit of a rank's result was made.
  [[nodiscard]] const std::vector<int>& made(int r) const {
    return results_[static_cast<std::size_t>(r)].made;
  }
  [[nodiscard]] const ReduceRows& schedule(int r) const {
    return schedules_[static_cast<std::size_t>(r)];
  }

 private:
  struct Result {
    std::vector<int> made;
    std::set<std::pair<int, Index>> shared;  ///< owner and chunk that are in the slot
  };

  void act(int r, const Step& s) override {
    Result& result = results_[static_cast<std::size_t>(r)];
    if (s.kind == Step::Kind::reduce) {
      if (s.chunk.owner != r) complain("a chunk is summed by another rank");
      for (Result& peer : results_)
        if (schedule(r).share) peer.shared.emplace(r, s.chunk.index);
    } else if (result.shared.count({s.chunk.owner, s.chunk.index}) == 0) {
      complain("a chunk is delivered before it is there");
    }
    for (Index u = s.chunk.units.begin; u < s.chunk.units.end; ++u)
      ++result.made.at(static_cast<std::size_t>(u));
  }

  std::vector<ReduceRows> schedules_;
  std::vector<Result> results_;
};

TEST(ReduceRows, MakesEveryUnitOnceAndEndsWithAnyResidency) {
  std::mt19937 rng(11);
  for (int i = 0; i < 600; ++i) {
    const Sizes c = random_sizes(rng);
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

/// By copy engines all is there before.
TEST(ReduceRows, CopiedRowsAreSummedOnceWithoutAWait) {
  std::mt19937 rng(12);
  for (int i = 0; i < 300; ++i) {
    Sizes c = random_sizes(rng);
    c.form = SumForm::own_rows;
    for (int r = 0; r < c.split.ranks; ++r) {
      const ReduceRows s = c.schedule(r);
      std::vector<int> made(static_cast<std::size_t>(c.split.m * c.row_units), 0);
      for (int w = 0; w < s.workers; ++w) {
        Recorder recorder;
        run_copied_rows(s, w, recorder);
        for (const Step& step : recorder.steps) {
          ASSERT_EQ(step.kind, Step::Kind::reduce) << i;
          for (Index u = step.chunk.units.begin; u < step.chunk.units.end; ++u)
            ++made.at(static_cast<std::size_t>(u));
        }
      }
      for (Index u = 0; u < std::ssize(made); ++u)
        ASSERT_EQ(made[static_cast<std::size_t>(u)],
                  u >= s.rows[r].begin && u < s.rows[r].end ? 1 : 0)
            << i << " unit " << u;
    }
  }
}

TEST(ReduceRows, HasNoMoreChunksAndFlagsThanASlotHasRoomFor) {
  for (const Index m : {1, 7, 1000, 100000}) {
    for (const Index row_units : {1, 3, 640, 5000}) {
      for (const Index chunk_rows : {1, 2, 64}) {
        const RowSplit split{m, 4, nullptr};
        for (const SumForm form : {SumForm::own_rows, SumForm::all_rows, SumForm::shared_rows}) {
          const ReduceRows s = make_reduce_rows(split, 1, form, row_units,
                                                chunk_of_rows(chunk_rows, row_units), 132);
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
  const ReduceRows s =
      make_reduce_rows({4, 4, nullptr}, 0, SumForm::all_rows, 1024, chunk_of_rows(1, 1024), 132);
  EXPECT_EQ(s.chunk_units, 512);
  EXPECT_EQ(s.chunks[0], 8);
  EXPECT_EQ(s.workers, 8);
}

TEST(ReduceRows, WorkersHaveAsManyChunks) {
  EXPECT_EQ(even_chunk(84 * 1024, 512, 132), 652);          // one round, not 1.3
  EXPECT_EQ(even_chunk(16 * 1024, 512, 132), 512);          // few rows: not smaller
  EXPECT_EQ(even_chunk(256 * 1024, 512, 132), 662);         // three rounds, not 3.9
  EXPECT_EQ(even_chunk(4 * 512 * 132 + 9, 512, 132), 512);  // many rounds
  for (Index units = 1; units < 300000; units += 777) {
    const Index chunk = even_chunk(units, 512, 132);
    const Index rounds = ceil_div(ceil_div(units, chunk), 132);
    EXPECT_GE(chunk, 512);
    if (chunk == 512) continue;
    EXPECT_LT((rounds * 132 - ceil_div(units, chunk)) * chunk, 132 * rounds) << units;
  }
}

TEST(ReduceRows, ARankWithoutRowsHasNothingToSum) {
  const Index borders[] = {0, 0, 10};
  const ReduceRows s = make_reduce_rows({10, 2, borders}, 0, SumForm::own_rows, 8, 16, 4);
  EXPECT_EQ(s.chunks[0], 0);
  EXPECT_EQ(s.chunks[1], 5);
  EXPECT_EQ(s.workers, 4);
}

}  // namespace
}  // namespace tilelace::schedule
