// SPDX-License-Identifier: Apache-2.0
// Calls of collectives and their plans: what is refused, that all ranks choose alike, and that the
// parcels of all pieces are the whole, each in a place of the staging.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/collectives/collective.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

/// Nothing is there: calls are only looked at.
std::byte* const memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);

struct Arguments {
  Collective collective = Collective::all_reduce;
  CollectiveArgs args;
  std::vector<std::int64_t> counts = {16}, takes;
  CollectiveOptions options;
};

/// What a check and a plan say on rank 1 of 3; "" if all is well.
std::string refusal(Collective collective, const std::function<void(Arguments&)>& spoil) {
  Arguments a{collective,
              {memory, memory + 2048, Item::bf16, Reduction::sum, {}, {}, nullptr},
              {16},
              {},
              {}};
  if (collective == Collective::all_to_all) a.takes = {16};
  spoil(a);
  a.args.counts = a.counts;
  a.args.takes = a.takes;
  try {
    const auto call = check_collective(a.collective, a.args, 1, 3);
    plan_collective(call, {.workers = 4, .most_rounds = schedule::kMaxExchangeRounds}, a.options,
                    false);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

constexpr auto kReduce = Collective::all_reduce;
constexpr auto kGather = Collective::all_gather;
constexpr auto kScatter = Collective::reduce_scatter;
constexpr auto kAll = Collective::all_to_all;

TEST(CollectiveCall, WrongArgumentsAreNamed) {
  struct Bad {
    Collective collective;
    std::function<void(Arguments&)> spoil;
    std::string text;
  };
  const std::vector<Bad> bad = {
      {kReduce, [](auto& a) { a.collective = Collective{9}; },
       "collective: got the unknown value 9, expected all_reduce, all_gather, reduce_scatter or "
       "all_to_all"},
      {kReduce, [](auto& a) { a.args.item = Item{7}; },
       "all_reduce: item: got the unknown value 7, expected bf16, fp16, fp32, i32, i64 or u8"},
      {kReduce, [](auto& a) { a.args.reduction = Reduction{3}; },
       "all_reduce: reduction: got the unknown value 3, expected sum, avg or max"},
      {kGather, [](auto& a) { a.args.reduction = Reduction::max; },
       "all_gather: reduction: got max, expected the default (sum), since this collective adds "
       "nothing"},
      {kScatter, [](auto& a) { a.args.item = Item::i32, a.args.reduction = Reduction::avg; },
       "reduce_scatter: item with reduction avg: got i32, expected bf16, fp16 or fp32"},
      {kGather, [](auto& a) { a.takes = {1}; },
       "all_gather: takes: got 1 entries, expected none: only all_to_all has takes"},
      {kReduce,
       [](auto& a) {
         a.counts = {1, 2, 3};
       },
       "all_reduce: counts: got 3 entries, expected one"},
      {kReduce, [](auto& a) { a.counts.clear(); },
       "all_reduce: counts: got 0 entries, expected one"},
      {kGather,
       [](auto& a) {
         a.counts = {1, 2};
       },
       "all_gather: counts: got 2 entries, expected one, or one per rank (3)"},
      {kAll, [](auto& a) { a.takes.clear(); },
       "all_to_all: takes: got 0 entries, expected one, or one per rank (3)"},
      {kScatter,
       [](auto& a) {
         a.counts = {1, -2, 3};
       },
       "reduce_scatter: counts: got an entry -2, expected 0 or more, at most 1099511627776 "
       "elements in all"},
      {kGather, [](auto& a) { a.counts = {std::int64_t{1} << 39}; },
       "all_gather: counts: got an entry 549755813888, expected 0 or more, at most 1099511627776 "
       "elements in all"},
      {kAll,
       [](auto& a) {
         a.counts = {1, 2, 3}, a.takes = {1, 3, 3};
       },
       "all_to_all: takes: got 3 elements from this rank itself, expected the 2 that it sends "
       "to itself"},
      {kReduce, [](auto& a) { a.args.in = nullptr; },
       "all_reduce: in: got null data, expected 32 bytes"},
      {kGather, [](auto& a) { a.args.out = nullptr; },
       "all_gather: out: got null data, expected 96 bytes"},
      {kReduce, [](auto& a) { a.args.in = memory + 1; },
       "all_reduce: in: got data 1 bytes off alignment, expected alignment to elements of 2 "
       "bytes"},
      {kReduce, [](auto& a) { a.args.item = Item::i64, a.args.out = memory + 2052; },
       "all_reduce: out: got data 4 bytes off alignment, expected alignment to elements of 8 "
       "bytes"},
      {kReduce, [](auto& a) { a.args.out = memory + 16; },
       "all_reduce: in and out overlap: pass separate tensors, or work in place as "
       "docs/collectives.md says"},
      {kGather, [](auto& a) { a.args.out = memory; },
       "all_gather: in and out overlap: pass separate tensors, or work in place as "
       "docs/collectives.md says"},
      {kAll, [](auto& a) { a.args.out = memory; },
       "all_to_all: in and out overlap: pass separate tensors"},
      {kGather, [](auto& a) { a.options.shots = 2; }, "all_gather: shots: got 2, expected 1"},
      {kReduce, [](auto& a) { a.options.shots = 3; }, "all_reduce: shots: got 3, expected 1 or 2"},
      {kReduce, [](auto& a) { a.options.workers = 0; },
       "all_reduce: workers: got 0, expected at least 1"},
      {kReduce, [](auto& a) { a.options.chunk = 0; },
       "all_reduce: chunk: got 0 bytes, expected at least 1"},
      {kReduce,
       [](auto& a) {
         a.counts = {1 << 24}, a.args.out = memory + (1 << 25), a.options.lines = true,
         a.options.shots = 1;
       },
       "all_reduce: option lines=1 is impossible, since 33554432 bytes do not fit the staging of "
       "lines; option lines=0 sends chunks instead"},
      {kAll,
       [](auto& a) {
         a.counts = a.takes = {1, 2, 3}, a.options.lines = true;
       },
       "all_to_all: option lines=1 is impossible, since 16 bytes cannot travel as lines, which "
       "need equal parts; option lines=0 sends chunks instead"},
      {kAll,
       [](auto& a) {
         a.counts = a.takes = {1, 2, 1 << 20}, a.args.out = memory + (1 << 22),
         a.options.chunk = 16;
       },
       "all_to_all: counts: got 2097152 bytes for a rank, expected at most 262144"},
  };
  for (const Bad& b : bad) EXPECT_EQ(refusal(b.collective, b.spoil), b.text);
}

TEST(CollectiveCall, PlacesInTheOtherTensorAndEmptyCallsAreTaken) {
  EXPECT_EQ(refusal(kReduce, [](auto& a) { a.args.out = memory; }), "");
  EXPECT_EQ(refusal(kGather, [](auto& a) { a.args.in = memory + 2048 + 32; }), "");
  EXPECT_EQ(refusal(kScatter, [](auto& a) { a.args.out = memory + 32; }), "");
  for (const auto c : {kReduce, kGather, kScatter, kAll})
    EXPECT_EQ(refusal(c,
                      [](auto& a) {
                        a.counts = {0}, a.args.in = a.args.out = nullptr;
                        if (!a.takes.empty()) a.takes = {0};
                      }),
              "");
}

/// A call as every rank sees it.
struct World {
  std::vector<CollectiveCall> calls;
  std::vector<CollectivePlan> plans;
};

World random_world(std::mt19937& rng, const CollectiveMachine& machine) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n));
  };
  const auto ranks = static_cast<int>(1 + below(8));
  const auto collective = kCollectives[static_cast<std::size_t>(below(4))].collective;
  CollectiveOptions options;
  if (below(2) == 0) options.chunk = 1 + below(3000);
  if (below(2) == 0) options.workers = static_cast<int>(1 + below(5));
  if (row_of(collective).shares) options.shots = static_cast<int>(1 + below(2));
  const auto count = [&] { return below(4) == 0 ? below(3) : below(1 << 18); };
  const bool even = collective == kReduce || below(2) == 0;
  std::vector<std::int64_t> counts(even ? 1U : static_cast<std::size_t>(ranks));
  for (auto& c : counts) c = count();
  // all_to_all of lists: what a sends b.
  const auto sent = [&](int a, int b) { return (a * 7 + b * 5 + counts[0]) % 97; };
  World world;
  for (int r = 0; r < ranks; ++r) {
    CollectiveArgs args;
    args.item = Item::bf16;
    args.in = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    args.out = reinterpret_cast<void*>(std::uintptr_t{1} << 44);
    std::vector<std::int64_t> sends = counts, takes;
    if (collective == kAll && even) takes = counts;
    for (int q = 0; q < ranks && collective == kAll && !even; ++q)
      sends[static_cast<std::size_t>(q)] = sent(r, q), takes.push_back(sent(q, r));
    args.counts = sends;
    args.takes = takes;
    world.calls.push_back(check_collective(collective, args, r, ranks));
    world.plans.push_back(plan_collective(world.calls.back(), machine, options, false));
  }
  return world;
}

/// Bytes of a parcel that the chunks of all pieces move, in order and once.
void expect_whole(const std::vector<Parcel>& moved, const Parcel& whole) {
  Index at = whole.at;
  for (const Parcel& p : moved) {
    if (p.bytes == 0) continue;
    EXPECT_EQ(p.at, at);
    at += p.bytes;
  }
  EXPECT_EQ(at, whole.at + whole.bytes);
}

TEST(CollectivePlan, RanksChooseAlikeAndPairsAgree) {
  std::mt19937 rng(3);
  for (int i = 0; i < 2000; ++i) {
    const World w = random_world(rng, {.workers = static_cast<int>(1 + rng() % 8),
                                       .most_rounds = schedule::kMaxExchangeRounds,
                                       .gpu = false});
    const auto ranks = static_cast<int>(w.calls.size());
    const std::uint32_t hash = collective_hash(w.calls[0], w.plans[0]);
    EXPECT_GE(hash, kFirstHash);
    for (int r = 0; r < ranks; ++r) {
      const auto& plan = w.plans[static_cast<std::size_t>(r)];
      EXPECT_EQ(collective_hash(w.calls[static_cast<std::size_t>(r)], plan), hash);
      EXPECT_EQ(plan.pieces, w.plans[0].pieces);
      EXPECT_EQ(plan.piece, w.plans[0].piece);
      for (int q = 0; q < ranks; ++q) {
        EXPECT_EQ(hash_between(w.calls[static_cast<std::size_t>(r)], hash, r, q),
                  hash_between(w.calls[static_cast<std::size_t>(q)], hash, r, q));
        EXPECT_GE(hash_between(w.calls[static_cast<std::size_t>(q)], hash, r, q), kFirstHash);
      }
    }
  }
}

TEST(CollectivePlan, PiecesMoveEveryParcelOnce) {
  std::mt19937 rng(5);
  for (int i = 0; i < 500; ++i) {
    const World w = random_world(
        rng, {.workers = 3, .most_rounds = schedule::kMaxExchangeRounds, .gpu = false});
    for (std::size_t r = 0; r < w.calls.size(); ++r) {
      const auto& call = w.calls[r];
      const auto& plan = w.plans[r];
      std::vector<std::vector<Parcel>> sends(w.calls.size()), takes(w.calls.size());
      for (Index piece = 0; piece < plan.pieces; ++piece) {
        const auto placed = place_exchange<64>(call, plan, piece);
        for (std::size_t q = 0; q < w.calls.size(); ++q) {
          sends[q].push_back(placed.sends[q]);
          takes[q].push_back(placed.takes[q]);
          EXPECT_LE(placed.schedule.rounds(), schedule::kMaxExchangeRounds);
          EXPECT_EQ(placed.schedule.pair_rounds(static_cast<int>(q)),
                    place_exchange<64>(w.calls[q], w.plans[q], piece)
                        .schedule.pair_rounds(static_cast<int>(r)));
        }
      }
      Index sent = call.sends[0].at, taken = call.takes[0].at;
      for (std::size_t q = 0; q < w.calls.size(); ++q) {
        if (plan.shots == 1) {
          expect_whole(sends[q], call.sends[q]);
          expect_whole(takes[q], call.takes[q]);
          continue;
        }
        // What ranks sum, one after the other, is the whole.
        for (const Parcel& p : sends[q]) {
          EXPECT_TRUE(p.bytes == 0 || p.at == sent);
          sent += p.bytes;
        }
        for (const Parcel& p : takes[q]) {
          EXPECT_TRUE(p.bytes == 0 || p.at == taken);
          taken += p.bytes;
        }
      }
      if (plan.shots == 2) {
        EXPECT_EQ(sent, call.sends[0].bytes);
        EXPECT_EQ(taken, call.takes[0].bytes);
      }
    }
  }
}

TEST(CollectivePlan, StagingHasWholeChunksForAllWorkersUpToFourRanks) {
  for (const int ranks : {2, 3, 4, 8}) {
    CollectiveCall call;
    call.collective = Collective::all_reduce;
    call.item = Item::bf16;
    call.ranks = ranks;
    call.counts = {Index{1} << 27};
    const CollectivePlan p = plan_collective(call, {.workers = 132}, {}, false);
    EXPECT_EQ(p.shots, ranks == 2 ? 1 : 2);
    const Index places = Index{ranks - 1} * p.shots * schedule::kRing;
    EXPECT_LE(places * p.workers * p.chunk * schedule::kUnitBytes, staged_bytes(ranks));
    if (ranks == 3 || ranks == 4) {
      EXPECT_EQ(p.chunk, kFullChunk);
    }
  }
}

TEST(CollectivePlan, PlacesLieApartInTheStaging) {
  std::mt19937 rng(7);
  for (int i = 0; i < 300; ++i) {
    const Index staged = Index{1} << (18 + rng() % 6);
    const World w = random_world(rng, {.workers = static_cast<int>(1 + rng() % 16),
                                       .staged_bytes = staged,
                                       .most_rounds = schedule::kMaxExchangeRounds,
                                       .gpu = false});
    const auto s = place_exchange<64>(w.calls[0], w.plans[0], 0).schedule;
    EXPECT_LE(s.num_units() * schedule::kUnitBytes, staged);
    std::map<Index, int> places, flags;
    for (Index round = 0; round < schedule::kRing; ++round) {
      for (int worker = 0; worker < s.workers; ++worker) {
        for (int p = 1; p < s.ranks; ++p) {
          ++places[s.term_place(0, p, {worker, round})];
          if (s.shares) ++places[s.sum_place(0, p, {worker, round})];
        }
        for (int p = 0; p < s.ranks; ++p) {
          ++flags[s.term(p, {worker, round})];
          if (s.shares) ++flags[s.sum(p, {worker, round})];
        }
      }
    }
    for (const auto& [unit, times] : places) {
      EXPECT_EQ(times, 1);
      EXPECT_EQ(unit % s.chunk, 0);
      EXPECT_LE(unit + s.chunk, s.num_units());
    }
    for (const auto& [flag, times] : flags) {
      EXPECT_EQ(times, 1);
      EXPECT_LT(flag, s.num_flags());
    }
  }
}

}  // namespace
}  // namespace tilelace::plan
