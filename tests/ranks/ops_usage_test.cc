// SPDX-License-Identifier: Apache-2.0
// Wrong use of the public API: the exact texts, on every rank, and that nothing else happens.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <limits>

#include "core/points.h"
#include "ops_usage_helpers.h"

namespace tilelace::usage {
namespace {

constexpr char kRefused[] = "usage: {}: rank 1 refused its call: {}";

/// Makes each call once with rank 1 wrong and once with every rank wrong.
void expect_refusals(const std::vector<BadCall>& cases) {
  World world(kPrepared);
  for (const auto& bad : cases) {
    for (const bool everyone : {false, true}) {
      SCOPED_TRACE(everyone ? "every rank is wrong" : "rank 1 is wrong");
      const std::string own = fmt::format("{}: {}", name_of(bad.op), bad.text);
      const std::string refused = fmt::format(kRefused, name_of(bad.op), own);
      const std::string told = everyone ? "usage: " + own : refused;
      const auto texts = on_ranks([&](int r) {
        auto args = world.ranks[r].good(bad.op);
        if (everyone || r == 1) bad.spoil(args, world.ranks[r]);
        args.call(world.members[r]);
      });
      EXPECT_EQ(texts, (Texts{told, "usage: " + own, told}));
      world.expect_intact();
    }
  }
}

TEST(OpsUsage, AnAllGatherWithWrongArgumentsIsRefusedOnEveryRank) { expect_refusals(kBadGathers); }
TEST(OpsUsage, AReductionWithWrongArgumentsIsRefusedOnEveryRank) {
  expect_refusals(kBadReductions);
}
TEST(OpsUsage, ACallWithAnIllegalPlanIsRefusedOnEveryRank) { expect_refusals(kBadPlans); }

TEST(OpsUsage, ACheckSaysWhatTheCallWouldAndTellsNobody) {
  World world(kPrepared);
  for (const auto* list : {&kBadGathers, &kBadReductions, &kBadPlans}) {
    for (const auto& bad : *list) {
      SCOPED_TRACE(bad.text);
      const auto texts = on_ranks([&](int r) {
        auto args = world.ranks[r].good(bad.op);
        args.check(world.members[r]);
        if (r != 1) return;
        bad.spoil(args, world.ranks[r]);
        args.check(world.members[r]);
      });
      const bool by_what_is_prepared =
          std::string_view(bad.text).find("prepare") != std::string::npos;
      const auto own = fmt::format("usage: {}: {}", name_of(bad.op), bad.text);
      EXPECT_EQ(texts, (Texts{"", by_what_is_prepared ? "" : own, ""}));
    }
  }
  world.expect_intact();
}

TEST(OpsUsage, ACallBeforePrepareIsRefusedAndPrepareThenHelps) {
  World world;
  const std::string text = "usage: gemm_ar: called before prepare: call prepare first";
  EXPECT_EQ(on_ranks([&](int r) { world.ranks[r].good(kAllReduce).call(world.members[r]); }),
            (Texts{text, text, text}));
  world.prepare();
  world.expect_intact();
}

TEST(OpsUsage, WeightsThatPrepareWasNotGivenAreReadInEachCall) {
  World world;
  Texts numbers;
  const auto texts = on_ranks([&](int r) {
    auto& rank = world.ranks[r];
    auto list = rank.preparations();
    for (auto& p : list) p.weights.clear();
    world.members[r].prepare(list);
    for (const Op op : {kGather, kScatter, kAllReduce}) {
      Rank::fill(rank.w0, 9, r);  // other values at the same place
      rank.good(op).call(world.members[r]);
      EXPECT_NE(wrong_number(op, rank, r), "");
      Rank::fill(rank.w0, 2, r);
      rank.good(op).call(world.members[r]);
      numbers[r] += wrong_number(op, rank, r);
    }
  });
  EXPECT_EQ(texts, Texts{});
  EXPECT_EQ(numbers, Texts{});
}

TEST(OpsUsage, ARankThatRefusesItsCallTellsTheOthers) {
  World world(kPrepared);
  const std::string text = fmt::format(kRefused, "gemm_rs", "gemm_rs: x: got fp64, expected fp32");
  EXPECT_EQ(on_ranks([&](int r) {
              if (r == 1) return refuse(world.members[r], "gemm_rs: x: got fp64, expected fp32");
              world.ranks[r].good(kScatter).call(world.members[r]);
            }),
            (Texts{text, "", text}));
  world.expect_intact();
}

constexpr std::string_view kTile = "fused mesh push tile 64x256 chunk 64 workers 1";

/// Rank 1 makes another call than the others; the cards say what each made.
struct Disagreement {
  Op op, other;
  std::function<void(Arguments&, Rank&)> change;
  std::string card, other_card;
};

TEST(OpsUsage, RanksThatDisagreeAreToldBothCalls) {
  const std::string ag = fmt::format(
      "ag_gemm ranks 3 m 6 n 12+20 k 8 fp32 bias yes act none gathered; ag_gemm {}", kTile);
  const auto reduce = [](std::string_view op, std::string_view what,
                         std::string_view plan = kTile) {
    return fmt::format("{0} ranks 3 {1}; {0} {2}{3} partials fp32", op, what, plan,
                       op == "gemm_ar" ? " blocks 1" : "");
  };
  const std::string rs = reduce("gemm_rs", "m 6 n 12 k 8 fp32 bias yes act none");
  const std::string ar = reduce("gemm_ar", "m 6 n 12 k 8 fp32 bias yes act none");
  const auto with = [](std::string text, std::string_view from, std::string_view to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<Disagreement> cases = {
      {kScatter, kAllReduce, CHANGE((void)0), rs, ar},
      {kGather, kScatter, CHANGE((void)0), ag, rs},
      {kAllReduce, kAllReduce, CHANGE(g.reduce.m = g.reduce.x.rows = g.reduce.out.rows = 5), ar,
       with(ar, "m 6", "m 5")},
      {kAllReduce, kAllReduce, CHANGE(g.reduce.m = g.reduce.x.rows = g.reduce.out.rows = 0), ar,
       with(ar, "m 6", "m 0")},
      {kGather, kGather,
       CHANGE(g.weights[1] = r.w2.view(), g.bias[1] = r.b0.view(), g.out[1].cols = kN0), ag,
       with(ag, "12+20", "12+12")},
      {kGather, kGather, CHANGE(g.weights.pop_back(), g.bias.pop_back(), g.out.pop_back()), ag,
       with(ag, "12+20", "12")},
      {kAllReduce, kAllReduce, CHANGE(g.reduce.x.cols = 4, g.reduce.weight = r.narrow.view()), ar,
       with(ar, "k 8", "k 4")},
      {kGather, kGather, CHANGE(g.gather.activation = Activation::silu), ag,
       with(ag, "none", "silu")},
      {kScatter, kScatter, CHANGE(g.reduce.bias = {}), rs, with(rs, "bias yes", "bias no")},
      {kGather, kGather, CHANGE(g.gather.gathered = {}), ag, with(ag, " gathered", "")},
      {kAllReduce, kAllReduce, CHANGE(g.reduce.residual = r.out0.view()), ar,
       with(ar, "none", "none residual")},
      {kScatter, kScatter, CHANGE(g.rows = {1, 2, 3}), rs, with(rs, "none", "none rows 1+2+3")},
      {kScatter, kScatter, CHANGE(g.options.route = RouteKind::ring), rs, with(rs, "mesh", "ring")},
      {kScatter, kScatter, CHANGE(g.options.tile_m = 32, g.options.chunk_rows = 32), rs,
       with(rs, "64x256 chunk 64", "32x256 chunk 32")},
  };
  World world(kPrepared);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.other_card);
    const auto texts = on_ranks([&](int r) {
      auto args = world.ranks[r].good(r == 1 ? c.other : c.op);
      args.options.path = Path::fused;
      args.options.blocks = 1;
      args.options.chunk_rows = 64;
      if (r == 1) c.change(args, world.ranks[r]);
      args.call(world.members[r]);
    });
    const auto text = [&](Op op, bool low) {
      return fmt::format(
          "usage: {}: rank {} called [{}], rank {} called [{}]: all ranks must make the same call",
          name_of(op), low ? 0 : 1, low ? c.card : c.other_card, low ? 1 : 2,
          low ? c.other_card : c.card);
    };
    EXPECT_EQ(texts[0], text(c.op, true));
    EXPECT_TRUE(texts[1] == text(c.other, true) || texts[1] == text(c.other, false)) << texts[1];
    EXPECT_EQ(texts[2], text(c.op, false));
    world.expect_intact();
  }
}

TEST(OpsUsage, ARankMayCallAgainAtOnceAfterARefusal) {
  World world(kPrepared);
  points::hook = [](const char* point, int rank) {  // rank 0 looks late
    if (rank == 0 && std::string_view(point) == "compute.before_wait") usleep(2000);
  };
  Texts numbers;
  EXPECT_EQ(on_ranks([&](int r) {
              for (int i = 0; i < 20; ++i) {
                auto args = world.ranks[r].good(kAllReduce);
                if (r == 1) args.reduce.m = -1;
                EXPECT_NE(caught([&] { args.call(world.members[r]); }).find("m: got -1"),
                          std::string::npos);
                world.ranks[r].good(kAllReduce).call(world.members[r]);
                numbers[r] += wrong_number(kAllReduce, world.ranks[r], r);
              }
            }),
            Texts{});
  points::hook = nullptr;
  EXPECT_EQ(numbers, Texts{});
}

TEST(OpsUsage, APrepareThatCannotBeIsRefusedAndTheOldOneStays) {
  using List = std::vector<Preparation>;
  struct Case {
    std::function<void(List&, Rank&)> spoil;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](List& l, Rank& r) { (void)r, l[0].problem.ranks = 4; },
       "ag_gemm: ranks: got 4, expected the group's 3"},
      {[](List& l, Rank& r) { (void)r, l[0].weights.pop_back(); },
       "ag_gemm: weights: got 2, expected 3, or none if calls bring their own"},
      {[](List& l, Rank& r) { (void)r, l[1].weights[0] = r.w1.view(); },
       "gemm_rs: weight 0: got [20, 8], expected [12, 8]"},
      {[](List& l, Rank& r) { (void)r, move(l[2].weights[0], 4); },
       "gemm_ar: weight 0: got data 4 bytes off, expected 16-byte alignment"},
      {[](List& l, Rank& r) { (void)r, l[0].problem.dtype = DType{8}; },
       "ag_gemm: dtype: got the unknown value 8, expected bf16, fp16 or fp32"},
      {[](List& l, Rank& r) { (void)r, l[0].problem.op = Op{3}; },
       "op: got the unknown value 3, expected ag_gemm, gemm_rs or gemm_ar"},
      {[](List& l, Rank& r) { (void)r, l[1].problem.return_gathered = true; },
       "gemm_rs: gathered: got one, expected none: only ag_gemm gathers"},
      {[](List& l, Rank& r) { (void)r, l[2].options.tile_m = 0; },
       "gemm_ar: plan fused mesh push is not possible: tile_m is 0, must be 1 to 4096"},
  };
  World world(kPrepared);
  const char* refused = "usage: prepare: rank 1 refused to prepare: {}";
  for (const auto& c : cases) {
    for (const bool everyone : {false, true}) {
      SCOPED_TRACE(c.text);
      const auto texts = on_ranks([&](int r) {
        auto list = world.ranks[r].preparations();
        if (everyone || r == 1) c.spoil(list, world.ranks[r]);
        world.members[r].prepare(list);
      });
      const auto told = fmt::format(fmt::runtime(everyone ? "usage: {}" : refused), c.text);
      EXPECT_EQ(texts, (Texts{told, "usage: " + c.text, told}));
      world.expect_intact();
    }
  }
}

TEST(OpsUsage, RanksThatPrepareDifferentProblemsAreToldBoth) {
  World world(kPrepared);
  const auto texts = on_ranks([&](int r) {
    auto all = world.ranks[r].preparations();
    std::vector<Preparation> list{all[1]};
    list[0].options.path = Path::unfused;
    if (r == 1) list[0].problem.m = 9;
    world.members[r].prepare(list);
  });
  const auto card = [&](int m) {
    return fmt::format(
        "gemm_rs ranks 3 m {} n 12 k 8 fp32 bias yes act none; gemm_rs unfused mesh push tile "
        "64x256 chunk {} workers 1 partials fp32",
        m, m / 3);
  };
  const auto text = [&](int rank, int m, int other) {
    return fmt::format(
        "usage: prepare: rank {} prepares [{}], rank {} prepares [{}]: all ranks must do the "
        "same",
        rank, card(m), rank + 1, card(other));
  };
  EXPECT_EQ(texts, (Texts{text(0, 6, 9), text(0, 6, 9), text(1, 9, 6)}));
  world.expect_intact();
}

TEST(OpsUsage, AnEmptyCommunicatorRefusesEveryCall) {
  Communicator none;
  Rank rank(0);
  const std::string text =
      "usage: communicator: the object is empty: it was moved from, or never made";
  for (const Op op : {kGather, kScatter, kAllReduce}) {
    EXPECT_EQ(caught([&] { rank.good(op).call(none); }), text);
  }
  EXPECT_EQ(caught([&] { none.prepare({}); }), text);
  EXPECT_EQ(caught([&] { none.barrier(); }), text);
  EXPECT_EQ(caught([&] { none.subgroup(std::vector<int>{0}); }), text);
  EXPECT_EQ(caught([&] { SymmetricBuffer(none, 64); }), text);
  EXPECT_EQ(caught([&] { static_cast<void>(none.rank()); }), text);
  EXPECT_EQ(caught([&] { static_cast<void>(query_plan(none, {})); }), text);
  none.abort();
}

TEST(OpsUsage, OptionsOutOfRangeAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    int ranks;
    CommunicatorOptions options;
    const char* text;
  };
  const std::vector<Case> cases = {
      {0, {}, "ranks: got 0, expected 1 to 64"},
      {65, {}, "ranks: got 65, expected 1 to 64"},
      {2, {.timeout_s = 0}, "timeout: got 0 s, expected more than 0 and at most 86400"},
      {2, {.timeout_s = -1}, "timeout: got -1 s, expected more than 0 and at most 86400"},
      {2, {.timeout_s = nan}, "timeout: got nan s, expected more than 0 and at most 86400"},
      {2, {.link_bytes_per_s = -5}, "link bandwidth: got -5, expected 0 to 1e15 bytes/s"},
      {2, {.link_bytes_per_s = nan}, "link bandwidth: got nan, expected 0 to 1e15 bytes/s"},
      {2, {.link_latency_s = -1}, "link latency: got -1 s, expected 0 to 10"},
      {2, {.workers = 3, .max_workers = 2}, "workers: got 3, expected at most max_workers, 2"},
      {2, {.workers = -1}, "workers: got -1, expected 0 to 1024"},
      {2, {.max_workers = -1}, "max_workers: got -1, expected 0 or more"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(caught([&] { Communicator::threads(c.ranks, c.options); }),
              std::string("usage: communicator: ") + c.text);
  }
}

TEST(OpsUsage, ASubgroupComputesAndWrongListsAreRefused) {
  World world;
  Texts numbers;
  const auto texts = on_ranks([&](int r) {
    auto& c = world.members[r];
    const auto refused = [&](std::vector<int> list) { return caught([&] { c.subgroup(list); }); };
    EXPECT_EQ(refused({r, 3}), "usage: subgroup: members: got rank 3, expected 0 to 2");
    EXPECT_EQ(refused({-1, r}), "usage: subgroup: members: got rank -1, expected 0 to 2");
    const auto own = std::to_string(r);
    EXPECT_EQ(refused({r, r}),
              "usage: subgroup: members: got rank " + own + " twice, expected each rank once");
    EXPECT_EQ(refused({}), "usage: subgroup: members: this rank, " + own +
                               ", is not among them: only the ranks of a subgroup may make it");
    if (r == 1) return;
    auto pair = c.subgroup(std::vector<int>{2, 0});
    const int place = r == 2 ? 0 : 1;
    EXPECT_EQ(pair.rank(), place);
    Rank rank(place);
    const auto p = preparation(kAllReduce, 2, {rank.w0.view()});
    pair.prepare({&p, 1});
    rank.good(kAllReduce).call(pair);
    numbers[r] = wrong_number(kAllReduce, rank, place, 2);
    pair.barrier();
  });
  EXPECT_EQ(texts, Texts{});
  EXPECT_EQ(numbers, Texts{});
  world.prepare();
  world.expect_intact();
}

TEST(OpsUsage, ASymmetricBufferIsSeenByEveryRank) {
  World world;
  const auto texts = on_ranks([&](int r) {
    auto& c = world.members[r];
    SymmetricBuffer buffer(c, sizeof(int) * kRanks);
    EXPECT_EQ(buffer.bytes(), sizeof(int) * kRanks);
    EXPECT_EQ(buffer.local(), buffer.peer(r));
    for (int p = 0; p < kRanks; ++p) static_cast<int*>(buffer.peer(p))[r] = 10 * r + p;
    c.barrier();
    for (int p = 0; p < kRanks; ++p) EXPECT_EQ(static_cast<int*>(buffer.local())[p], 10 * p + r);
    for (const int bad : {3, -1}) {
      EXPECT_EQ(caught([&] { static_cast<void>(buffer.peer(bad)); }),
                fmt::format("usage: symmetric buffer: rank: got {}, expected 0 to 2", bad));
    }
    EXPECT_EQ(caught([&] { SymmetricBuffer(c, r == 2 ? 128 : 64); }),
              "usage: allocate: rank 2 passed 128 bytes, rank 0 passed 64: pass the same size on "
              "every rank");
    c.barrier();
  });
  EXPECT_EQ(texts, Texts{});
}

TEST(OpsUsage, AQueryOrPartOfAnotherGroupOrOpIsRefused) {
  World world(kPrepared);
  const Problem other = preparation(kScatter, 2, {world.ranks[0].w0.view()}).problem;
  EXPECT_EQ(caught([&] { static_cast<void>(query_plan(world.members[0], other)); }),
            "usage: gemm_rs: ranks: got 2, expected the group's 3");
  const std::string text = "usage: ag_gemm: a: got [6, 8], expected [2, 8]";
  EXPECT_EQ(on_ranks([&](int r) {
              collective_only(world.members[r], kGather, world.ranks[r].good(kScatter).reduce);
            }),
            (Texts{text, text, text}));
  world.expect_intact();
}

TEST(OpsUsage, ACallWhoseProblemSaysOtherThanItsTensorsIsRefused) {
  World world(kPrepared);
  using Spoil = void (*)(CallArgs&);
  const std::pair<const char*, Spoil> cases[] = {
      {"ranks: got 2, expected the group's 3", [](CallArgs& a) { a.problem.ranks = 2; }},
      {"bias: got 1, expected 0", [](CallArgs& a) { a.problem.bias = false; }},
      {"bias: got 0, expected none or 1", [](CallArgs& a) { a.operands.bias = {}; }},
      {"weight: got 0, expected 1", [](CallArgs& a) { a.operands.weights = {}; }},
      {"out: got 0, expected 1", [](CallArgs& a) { a.operands.out = {}; }},
      {"x: got [6, 8], expected [5, 8]", [](CallArgs& a) { a.problem.m = 5; }}};
  const auto run = [&](Spoil spoil) {
    return on_ranks([&](int r) {
      Rank& own = world.ranks[r];
      const TensorView weight = own.w0.view(), bias = own.b0.view(), out = own.out_rs.view();
      CallArgs args{preparation(kScatter, 3, {weight}).problem,
                    {own.x.view(), {&weight, 1}, {&bias, 1}, {&out, 1}}};
      spoil(args);
      call(world.members[r], args);
    });
  };
  for (const auto& [text, spoil] : cases) {
    const std::string told = std::string("usage: gemm_rs: ") + text;
    EXPECT_EQ(run(spoil), (Texts{told, told, told}));
  }
  world.expect_intact();
  EXPECT_EQ(run([](CallArgs&) {}), Texts{});
}

std::atomic<bool> inside{false}, go_on{false};

TEST(OpsUsage, ASecondThreadIsRefusedWhileACallRuns) {
  World world(kPrepared);
  inside = go_on = false;
  points::hook = [](const char* point, int rank) {
    if (rank != 0 || std::string_view(point) != "call.enter" || inside.exchange(true)) return;
    while (!go_on) std::this_thread::yield();
  };
  std::thread second([&] {
    while (!inside) std::this_thread::yield();
    const std::string rest =
        ": another thread is in a call on this communicator: one call at a time";
    auto& c = world.members[0];
    EXPECT_EQ(caught([&] { world.ranks[0].good(kGather).call(c); }), "usage: ag_gemm" + rest);
    EXPECT_EQ(caught([&] { c.barrier(); }), "usage: barrier" + rest);
    EXPECT_EQ(caught([&] { c.prepare({}); }), "usage: prepare" + rest);
    go_on = true;
  });
  Texts numbers;
  EXPECT_EQ(on_ranks([&](int r) {
              world.ranks[r].good(kScatter).call(world.members[r]);
              numbers[r] = wrong_number(kScatter, world.ranks[r], r);
              world.ranks[r].poison();
            }),
            Texts{});
  second.join();
  points::hook = nullptr;
  EXPECT_EQ(numbers, Texts{});
  world.expect_intact();
}

TEST(OpsUsage, CallsAfterAnAbortAreRefusedWithTheFirstReason) {
  World world(kPrepared);
  world.members[1].abort();
  const auto first = [](int r) {
    return fmt::format("gemm_ar: {} rank 1 aborted the group", r == 1 ? "own" : "peer");
  };
  EXPECT_EQ(on_ranks([&](int r) { world.ranks[r].good(kAllReduce).call(world.members[r]); }),
            (Texts{"peer: " + first(0), "peer: " + first(1), "peer: " + first(2)}));
  const auto later = [&](int r) {
    return "peer: ag_gemm: this communicator takes no more calls since it failed (" + first(r) +
           "): make a new one (in Python: call tilelace.leave on every rank)";
  };
  EXPECT_EQ(on_ranks([&](int r) { world.ranks[r].good(kGather).call(world.members[r]); }),
            (Texts{later(0), later(1), later(2)}));
  for (auto& rank : world.ranks) EXPECT_TRUE(rank.untouched());
}

TEST(OpsUsage, TwoProcessesAllReduce) {
  std::string root = std::filesystem::temp_directory_path() / "tilelace-usage-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto child = [&](int r) {
    const auto text = caught([&] {
      auto c = Communicator::process(r, 2, root + "/meet", test_options());
      Rank rank(r);
      const auto p = preparation(kAllReduce, 2, {rank.w0.view()});
      c.prepare({&p, 1});
      rank.good(kAllReduce).call(c);
      c.barrier();
      const auto wrong = wrong_number(kAllReduce, rank, r, 2);
      if (!wrong.empty()) throw Error(ErrorKind::system, wrong);
    });
    if (!text.empty()) fmt::print(stderr, "rank {}: {}\n", r, text);
    _exit(text.empty() ? 0 : 1);
  };
  std::array<pid_t, 2> pids{};
  for (int r = 0; r < 2; ++r) {
    pids[r] = fork();
    if (pids[r] == 0) child(r);
  }
  for (const pid_t pid : pids) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tilelace::usage
