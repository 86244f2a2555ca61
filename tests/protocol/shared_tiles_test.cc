// SPDX-License-Identifier: Apache-2.0
// The loops of share_tiles.h on real threads over plain arrays, in turns with an all-gather that
// shares the slots: numbers instead of tiles, real flags. ThreadSanitizer, too, sees who is early.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check/record.h"
#include "comm/signal.h"
#include "comm/std_atomics.h"

namespace tilelace::check {
namespace {

using comm::StdAtomics;
using Plans = std::vector<std::shared_ptr<const CallPlan>>;

constexpr int kRanks = 3, kWorkers = 5;
constexpr Index kRows = 38, kCols = 5, kCalls = 60;
constexpr std::size_t kFlags = 1000;
constexpr Index kLostRow = 13;  ///< of rank 1: its first
constexpr std::size_t kTable = static_cast<std::size_t>(kRows * kCols);

/// A number for each row and column.
using Table = std::vector<int>;

struct Slot {
  std::vector<comm::Flag> flags = std::vector<comm::Flag>(kFlags);
  std::vector<Table> partials = std::vector<Table>(kRanks, Table(kTable));  ///< by source
  Table result = Table(kTable);
};

struct Rank {
  std::vector<comm::Header> headers = std::vector<comm::Header>(kRanks);
  std::vector<Slot> slots = std::vector<Slot>(2);
  Table out = Table(kTable);
};

/// What is left out, so that the numbers show it.
enum class Lost { nothing, product, tile };

struct Group {
  std::vector<Rank> ranks = std::vector<Rank>(kRanks);
  comm::AbortWord abort = 0;
  Lost lost = Lost::nothing;
  std::atomic<int> wrong = 0;
};

int partial_of(int rank, std::uint32_t epoch, std::size_t at) {
  return (rank + 1) * 1009 + static_cast<int>(epoch) * 31 + static_cast<int>(at) * (rank + 2);
}
int sum_of(std::uint32_t epoch, std::size_t at) {
  int sum = 0;
  for (int r = 0; r < kRanks; ++r) sum += partial_of(r, epoch, at);
  return sum;
}

/// Calls f(place in a table) for these rows and columns.
template <class F>
void each(RowRange rows, Index first, Index last, F f) {
  for (Index row = rows.begin; row < rows.end; ++row)
    for (Index col = first; col < last; ++col) f(static_cast<std::size_t>(row * kCols + col));
}

struct Verbs : NoVerbs {
  using NoVerbs::compute;
  using NoVerbs::deliver;
  using NoVerbs::reduce;
  using NoVerbs::store;
  using NoVerbs::store_partial;
  using NoVerbs::store_result;

  Group* group = nullptr;
  int rank = 0;
  std::uint32_t epoch = 0;
  Table sums = Table(kTable);  ///< this actor's accumulators

  [[nodiscard]] Rank& at(int r) const { return group->ranks[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Slot& slot(int r) const { return at(r).slots[epoch % 2]; }
  [[nodiscard]] comm::Flag* flag(int r, Index i) const {
    return &slot(r).flags[static_cast<std::size_t>(i)];
  }
  static std::int64_t deadline() { return StdAtomics::now_ns() + 20'000'000'000; }

  void signal(int peer, Index i) { comm::signal<StdAtomics>(flag(peer, i), epoch); }
  void signal_header(int peer) {
    comm::signal<StdAtomics>(&at(peer).headers[static_cast<std::size_t>(rank)], epoch, 7U);
  }
  void check_wait(comm::WaitStatus status) const {
    if (status == comm::WaitStatus::reached) return;
    ++group->wrong;
    comm::raise_abort<StdAtomics>(&group->abort, {1, 0, 0});  // the others end, too
  }
  void wait(Index i) {
    comm::Flag seen = 0;
    check_wait(comm::wait<StdAtomics>(flag(rank, i), epoch, &group->abort, deadline(), seen));
  }
  void admit() {
    for (int p = 0; p < kRanks; ++p) {
      comm::Header seen = 0;
      if (p != rank)
        check_wait(comm::wait<StdAtomics>(&at(rank).headers[static_cast<std::size_t>(p)], epoch,
                                          &group->abort, deadline(), seen));
    }
  }

  void compute(const schedule::ShareTile& t) {
    const bool lost = group->lost == Lost::product && rank == 1;
    each(t.rows, t.col, t.col + 1,
         [&](auto i) { sums[i] = lost ? 0 : partial_of(rank, epoch, i); });
  }
  void store_partial(const schedule::ShareTile& t, int peer) {
    Table& to = slot(peer).partials[static_cast<std::size_t>(rank)];
    each(t.rows, t.col, t.col + 1, [&](auto i) { to[i] = sums[i]; });
  }
  void reduce(const schedule::ShareTile& t) {
    for (int p = 0; p < kRanks; ++p) {
      const Table& term = slot(rank).partials[static_cast<std::size_t>(p)];
      if (p != rank) each(t.rows, t.col, t.col + 1, [&](auto i) { sums[i] += term[i]; });
    }
  }
  void store(const schedule::ShareTile& t) {
    each(t.rows, t.col, t.col + 1, [&](auto i) { at(rank).out[i] = sums[i]; });
  }
  void store_result(const schedule::ShareTile& t, int peer) {
    if (group->lost == Lost::tile && t.rows.begin == kLostRow && t.col == 0) return;
    each(t.rows, t.col, t.col + 1, [&](auto i) { slot(peer).result[i] = sums[i]; });
  }
  void deliver(const schedule::ShareTile& t) {
    each(t.rows, t.col, t.col + 1, [&](auto i) { at(rank).out[i] = slot(rank).result[i]; });
  }

  /// Of the all-gather: a row is a number, and lies where results do.
  void push(const schedule::GatherTransfer& t) {
    each(t.rows, 0, 1, [&](auto i) { slot(t.peer).result[i] = partial_of(t.source, epoch, i); });
  }
  void compute(const schedule::GatherTile& t) {
    if (t.source == rank) return;
    each(t.rows, 0, 1, [&](auto i) {
      if (slot(rank).result[i] != partial_of(t.source, epoch, i)) ++group->wrong;
    });
  }
};

CallSpec shared_by(int lag) {
  CallSpec s;
  s.op = Op::gemm_ar;
  s.m = kRows;
  s.cols = kCols;
  s.tile_m = 3;
  s.blocks = 2;
  s.lag = lag;
  s.transport = Transport::store;
  return s;
}

/// Two calls of these, and between them an all-gather, which sends before it is admitted.
Plans plans() {
  CallSpec gather;
  gather.m = kRows;
  gather.cols = 1;
  gather.tile_m = 4;
  gather.chunk_rows = 5;
  Plans all;
  for (const CallSpec& spec : {shared_by(3), gather, shared_by(1)})
    all.push_back(std::make_shared<const CallPlan>(spec, kRanks, kWorkers));
  return all;
}

template <class V>
void run_actor(const CallPlan& plan, int rank, int i, V& verbs) {
  const auto run = [&](const auto& s) {
    i == 0 ? run_copy(s, verbs) : run_compute(s, i - 1, verbs);
  };
  plan.spec().lag > 0 ? run(plan.shared(rank)) : plan.visit(rank, run);
}

/// All calls of a rank; its actors as threads, joined at the end of each as a stream would.
void run_rank(int rank, const Plans& all, Group& group, SharedMonitor* shared) {
  Table& out = group.ranks[static_cast<std::size_t>(rank)].out;
  for (Index call = 0; call < kCalls; ++call) {
    const auto& plan = all[static_cast<std::size_t>(call) % all.size()];
    const auto epoch = static_cast<std::uint32_t>(call + 1);
    out.assign(kTable, -1);
    std::vector<std::thread> threads;
    for (int i = 0; i <= kWorkers; ++i)
      threads.emplace_back([&, i] {
        Verbs real;
        real.group = &group;
        real.rank = rank;
        real.epoch = epoch;
        if (shared == nullptr) return run_actor(*plan, rank, i, real);
        const int actor = actor_of(rank, i, kWorkers);
        shared->begin_call(actor, call, plan);
        auto verbs = watched(real, *shared, actor);
        run_actor(*plan, rank, i, verbs);
        shared->end_call(actor);
      });
    for (std::thread& t : threads) t.join();
    if (plan->spec().lag == 0) continue;
    for (std::size_t i = 0; i < kTable; ++i)
      if (out[i] != sum_of(epoch, i)) ++group.wrong;
  }
}

int wrong_numbers(Lost lost, SharedMonitor* shared) {
  Group group;
  group.lost = lost;
  const Plans all = plans();
  for (const auto& plan : all) EXPECT_LE(plan->num_flags(), static_cast<Index>(kFlags));
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) ranks.emplace_back([&, r] { run_rank(r, all, group, shared); });
  for (std::thread& t : ranks) t.join();
  return group.wrong;
}

TEST(SharedTiles, NumbersAreRightOnRealThreads) {
  EXPECT_EQ(wrong_numbers(Lost::nothing, nullptr), 0);
}

TEST(SharedTiles, RealThreadsHaveNoFinding) {
  Monitor::Setup setup;
  setup.ranks = kRanks;
  setup.workers = kWorkers;
  SharedMonitor shared(setup);

  EXPECT_EQ(wrong_numbers(Lost::nothing, &shared), 0);

  for (const Finding& f : shared.findings()) ADD_FAILURE() << f.text;
}

TEST(SharedTiles, NumbersShowALostProductAndALostTile) {
  // In 40 calls: every number; 3 rows of one column, at the two ranks that get them.
  EXPECT_EQ(wrong_numbers(Lost::product, nullptr), kRanks * 40 * static_cast<int>(kTable));
  EXPECT_EQ(wrong_numbers(Lost::tile, nullptr), 2 * 40 * 3);
}

}  // namespace
}  // namespace tilelace::check
