// SPDX-License-Identifier: Apache-2.0
// Collectives of CPU ranks: the bits of a plain loop, whatever the op, the elements and the
// options.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "collectives_helpers.h"
#include "comm_helpers.h"
#include "core/points.h"
#include "night.h"
#include "ops_usage_helpers.h"

namespace tilelace::collectives_test {
namespace {

using comm::test::run_processes;
using comm::test::run_threads;

/// What each rank does on a thread of its own; a rank's calls end with its first wrong result.
void run_ranks(int ranks, const CommunicatorOptions& options,
               const std::function<std::string(Communicator&)>& calls) {
  auto members = Communicator::threads(ranks, options);
  run_threads(ranks, [&](int r) { EXPECT_EQ(calls(members[static_cast<std::size_t>(r)]), ""); });
}

std::string random_calls(Communicator& c, std::uint32_t seed, int calls) {
  Draw draw(c.size(), seed + static_cast<std::uint32_t>(night_seed()));
  for (int i = 0; i < calls * night_times(); ++i) {
    const std::string wrong = wrong_result(c, draw.next());
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(Collectives, EveryOpItemAndReductionHasTheBitsOfAPlainLoop) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    run_ranks(ranks, {.workers = 1 + ranks % 3, .timeout_s = 20}, [](Communicator& c) {
      Draw draw(c.size(), 17);
      for (const auto& op : kCollectives)
        for (const auto& item : kItems)
          for (const Reduction r : {Reduction::sum, Reduction::avg, Reduction::max}) {
            if (!op.sums && r != Reduction::sum) continue;
            const std::string wrong = wrong_result(
                c, draw.next({op.collective, item.item, r, {}, {}, false, false, {}, 0}));
            if (!wrong.empty()) return wrong;
          }
      return std::string();
    });
  }
}

TEST(Collectives, ManyRoundsAndPiecesAreWholeAndInOrder) {
  run_ranks(3, {.workers = 2, .timeout_s = 20}, [](Communicator& c) {
    for (const auto& op : kCollectives) {
      for (const std::int64_t chunk : {16, 48, 4096}) {
        for (const int workers : {1, 2}) {
          Case big{op.collective, Item::bf16, Reduction::sum, {9001}, {}, false, true, {}, 5};
          if (op.collective == Collective::all_gather) big.counts = {9001, 0, 4097};
          big.in_place = op.collective != Collective::all_to_all && workers == 2;
          if (op.collective == Collective::all_to_all) {
            big.counts.clear();
            const std::int64_t most = chunk * workers * 100;
            big.matrix = {{most, 1, 0}, {most, 3, most}, {7, 0, most / 2}};
          }
          big.options = {.lines = {}, .shots = {}, .workers = workers, .chunk = chunk};
          if (op.shares) big.options.shots = workers;
          const std::string wrong = wrong_result(c, big);
          if (!wrong.empty()) return wrong;
        }
      }
    }
    return std::string();
  });
}

TEST(Collectives, ProcessesMakeThemToo) {
  const comm::test::TemporaryPath meeting;
  run_processes(3, [&](int r) {
    auto c = Communicator::process(r, 3, meeting.path(), {.workers = 2, .timeout_s = 20});
    prepare_collectives(c);
    const std::string wrong = random_calls(c, 23, 100);
    if (!wrong.empty()) throw Error(ErrorKind::system, wrong);
  });
}

TEST(Collectives, TwoThousandCallsInARowWithPoisonedSlots) {
  points::poison_slots = true;
  run_ranks(3, {.workers = 2, .timeout_s = 20},
            [](Communicator& c) { return random_calls(c, 31, 2000); });
  points::poison_slots = false;
}

/// Now and then a rank rests where it is.
void rest(const char* /*point*/, int rank) {
  thread_local std::mt19937 rng(static_cast<std::uint32_t>(rank));
  if (rng() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 200));
}

TEST(Collectives, DelaysAnywhereChangeNothing) {
  points::poison_slots = true;
  points::hook = rest;
  run_ranks(3, {.workers = 2, .timeout_s = 20}, [](Communicator& c) {
    Draw draw(c.size(), 53);
    for (int i = 0; i < 60 * night_times(); ++i) {
      Case many = draw.next();
      if (many.collective == Collective::all_to_all) continue;
      many.counts = {700 + draw.below(300)};
      many.options.chunk = 64;
      const std::string wrong = wrong_result(c, many);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  });
  points::hook = nullptr;
  points::poison_slots = false;
}

TEST(Collectives, CallsAreNumberedAcrossTheWrap) {
  setenv("TILELACE_FIRST_EPOCH", "4294967280", 1);
  run_ranks(2, {.workers = 1, .timeout_s = 20},
            [](Communicator& c) { return random_calls(c, 37, 60); });
  unsetenv("TILELACE_FIRST_EPOCH");
}

TEST(Collectives, AnEmulatedWireCarriesThem) {
  run_ranks(4, {.workers = 2, .timeout_s = 20, .link_bytes_per_s = 1e9, .link_latency_s = 1e-5},
            [](Communicator& c) { return random_calls(c, 41, 60); });
}

TEST(Collectives, CallsThatAreComparedGoOn) {
  setenv("TILELACE_COMPARE_CALLS", "1", 1);
  run_ranks(3, {.workers = 1, .timeout_s = 20},
            [](Communicator& c) { return random_calls(c, 43, 60); });
  unsetenv("TILELACE_COMPARE_CALLS");
}

TEST(Collectives, ProductsAndCollectivesTakeTurns) {
  for (const bool checked : {false, true}) {
    auto members =
        Communicator::threads(usage::kRanks, {.workers = 2, .timeout_s = 20, .checked = checked});
    run_threads(usage::kRanks, [&](int r) {
      Communicator& c = members[static_cast<std::size_t>(r)];
      usage::Rank rank(r);
      Draw draw(usage::kRanks, 47);
      EXPECT_EQ(wrong_result(c, draw.next()), "");
      c.prepare(rank.preparations());
      for (int i = 0; i < 60; ++i) {
        const Op op = static_cast<Op>(draw.below(3));
        rank.good(op).call(c);
        EXPECT_EQ(usage::wrong_number(op, rank, r), "");
        for (std::int64_t more = draw.below(3); more > 0; --more)
          EXPECT_EQ(wrong_result(c, draw.next()), "");
      }
    });
    EXPECT_EQ(members[0].findings(), std::vector<std::string>{});
  }
}

TEST(Collectives, ADescriptionSaysHowACallRuns) {
  auto members = Communicator::threads(2, {.workers = 2, .timeout_s = 20});
  std::vector<float> data(4096);
  const std::int64_t count = 2048;
  const CollectiveArgs args{data.data(), data.data(), Item::fp32, Reduction::sum, {&count, 1}};
  EXPECT_EQ(describe_collective(members[0], Collective::all_reduce, args,
                                {.lines = true, .shots = 2, .workers = 2, .chunk = 1024}),
            "chunks in two shots, 2 workers, chunk 1024 bytes");
}

}  // namespace
}  // namespace tilelace::collectives_test
