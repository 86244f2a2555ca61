// SPDX-License-Identifier: Apache-2.0
// Real threads under watched verbs: what the CPU backend's checked mode does.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "check/record.h"
#include "check/sweep.h"
#include "comm/signal.h"
#include "tilelace/error.h"

namespace tilelace::check {
namespace {

constexpr int kRanks = 3;
constexpr int kWorkers = 2;
constexpr Index kCalls = 6;
constexpr std::size_t kFlags = 1000;

struct Words {
  std::array<std::array<std::atomic<std::uint32_t>, kFlags>, 2 * kRanks> flags{};  ///< rank, slot
  std::array<std::atomic<std::uint32_t>, kRanks * kRanks> headers{};
};

/// Flags are real, tiles and chunks are not.
struct FlagVerbs : NoVerbs {
  Words* words = nullptr;
  int rank = 0;
  std::uint32_t epoch = 0;

  std::atomic<std::uint32_t>& flag(int at, Index index) const {
    return words
        ->flags[static_cast<std::size_t>(at) * 2 + epoch % 2][static_cast<std::size_t>(index)];
  }
  std::atomic<std::uint32_t>& header(int at, int from) const {
    return words->headers[static_cast<std::size_t>(at * kRanks + from)];
  }
  void await(const std::atomic<std::uint32_t>& word) const {
    while (!comm::epoch_reached(word.load(std::memory_order_acquire), epoch)) {
      std::this_thread::yield();
    }
  }
  void signal(int peer, Index index) { flag(peer, index).store(epoch, std::memory_order_release); }
  void signal_header(int peer) { header(peer, rank).store(epoch, std::memory_order_release); }
  void wait(Index index) { await(flag(rank, index)); }
  void admit() {
    for (int p = 0; p < kRanks; ++p) {
      if (p != rank) await(header(rank, p));
    }
  }
};

void run_rank(int rank, const std::vector<std::shared_ptr<const CallPlan>>& plans, Words& words,
              SharedMonitor& shared) {
  for (Index call = 0; call < kCalls; ++call) {
    const auto& plan = plans[static_cast<std::size_t>(call) % plans.size()];
    std::vector<std::thread> threads;
    for (int i = 0; i <= kWorkers; ++i) {
      threads.emplace_back([&, i] {
        const int actor = actor_of(rank, i, kWorkers);
        FlagVerbs real;
        real.words = &words;
        real.rank = rank;
        real.epoch = static_cast<std::uint32_t>(call + 1);
        shared.begin_call(actor, call, plan);
        auto verbs = watched(real, shared, actor);
        plan->visit(rank, [&](const auto& s) {
          i == 0 ? run_copy(s, verbs) : run_compute(s, i - 1, verbs);
        });
        shared.end_call(actor);
      });
    }
    for (std::thread& t : threads) t.join();
  }
}

TEST(Watched, RealThreadsHaveNoFinding) {
  CallSpec spec;
  spec.m = 25;
  spec.cols = 2;
  spec.tile_m = 4;
  spec.chunk_rows = 3;
  std::vector<std::shared_ptr<const CallPlan>> plans;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
    spec.op = op;
    plans.push_back(std::make_shared<const CallPlan>(spec, kRanks, kWorkers));
    ASSERT_LE(plans.back()->num_flags(), static_cast<Index>(kFlags));
  }
  Words words;
  Monitor::Setup setup;
  setup.ranks = kRanks;
  setup.workers = kWorkers;
  SharedMonitor shared(setup);

  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] { run_rank(r, plans, words, shared); });
  }
  for (std::thread& t : ranks) t.join();

  for (const Finding& f : shared.findings()) ADD_FAILURE() << f.text;
}

/// Threads that try configurations side by side find what one finds, in the order asked for.
TEST(Watched, ConfigurationsAreTriedByThreads) {
  CallSpec shape;
  shape.op = Op::gemm_ar;
  shape.m = 40;
  shape.tile_m = 4;
  shape.chunk_rows = 4;
  std::vector<CheckConfig> all = variants(shape, kRanks, kWorkers);
  const std::size_t last = all.size() - 1;
  for (const std::size_t i : {last - 1, last}) all[i].mutant = Mutant::lost_tile;
  std::int64_t told = 0;

  const SweepSummary sum = check_all(all, [&](std::int64_t done) { told = done; });

  std::int64_t steps = 0;
  for (const CheckConfig& c : all) steps += check(c).steps;
  EXPECT_EQ(sum.configurations, std::ssize(all));
  EXPECT_EQ(told, std::ssize(all));
  EXPECT_EQ(sum.steps, steps);
  EXPECT_EQ(sum.mixed, 0);
  ASSERT_EQ(sum.failures.size(), 2U);
  EXPECT_EQ(sum.failures.front().config, all[last - 1]);
  EXPECT_EQ(sum.failures.back().findings.front().text, check(all.back()).findings.front().text);

  all.front().ranks = 0;
  EXPECT_THROW(check_all(all), Error);
}

}  // namespace
}  // namespace tilelace::check
