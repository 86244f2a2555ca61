// SPDX-License-Identifier: Apache-2.0
// What the checker says, finding by finding.
#include <gtest/gtest.h>

#include "check/explore.h"
#include "check/record.h"

namespace tilelace::check {
namespace {

CallSpec tiny(Op op) {
  CallSpec s;
  s.op = op;
  s.m = 4;
  s.tile_m = 2;
  s.chunk_rows = 2;
  return s;
}

std::string first_finding(const CallSpec& spec, Mutant mutant) {
  CheckConfig c;
  c.calls = {spec, spec, spec};
  c.ranks = 2;
  c.mutant = mutant;
  const CheckReport report = check(c);
  return report.findings.empty() ? "" : report.findings.front().text;
}

/// Two ranks of one worker each, driven by hand.
struct ByHand {
  explicit ByHand(const CallSpec& spec)
      : plan(std::make_shared<const CallPlan>(spec, 2, 1)), monitor(setup()) {
    for (int a = 0; a < 4; ++a) monitor.begin_call(a, 0, plan);
  }
  static Monitor::Setup setup() {
    Monitor::Setup s;
    s.ranks = 2;
    return s;
  }
  [[nodiscard]] std::string first() const {
    return monitor.findings().empty() ? "" : monitor.findings().front().text;
  }
  std::shared_ptr<const CallPlan> plan;
  Monitor monitor;
};

constexpr int kCopy0 = 0;
constexpr int kCopy1 = 2;
constexpr int kCompute1 = 3;
const Step kPush{Verb::push, 1, 0, 0, 0, {0, 2}, -1};
const Step kLanded{Verb::signal, 1, -1, 0, 0, {}, -1};
const Step kWait{Verb::wait, -1, -1, 0, 0, {}, -1};
const Step kCompute{Verb::compute, -1, 0, 0, -1, {0, 2}, 0};
const Step kStore{Verb::store, -1, 0, 0, -1, {0, 2}, 0};
const Step kAdmit{Verb::admit, -1, -1, 0, -1, {}, -1};

TEST(Checker, AcceptsReadAfterSignalAndWait) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCopy0, kPush);
  h.monitor.on(kCopy0, kLanded);
  h.monitor.on(kCompute1, kWait);
  h.monitor.on(kCompute1, kCompute);

  EXPECT_EQ(h.first(), "");
}

TEST(Checker, FindsReadBeforeWait) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCopy0, kPush);
  h.monitor.on(kCopy0, kLanded);
  h.monitor.on(kCompute1, kCompute);

  EXPECT_EQ(h.first(),
            "race: ag_gemm call 1 rank 1 compute 0 step 1 compute tile rows 0..2 col 0 reads "
            "gathered@1 rows 0..2, written by rank 0 copy step 1, not ordered");
}

TEST(Checker, FindsReadOfWhatNobodyWrote) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCompute1, kCompute);

  EXPECT_EQ(h.first(),
            "unwritten: ag_gemm call 1 rank 1 compute 0 step 1 compute tile rows 0..2 col 0 reads "
            "gathered@1 rows 0..2, which nobody has written");
}

TEST(Checker, FindsChunkMovedTwice) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCopy0, kPush);
  h.monitor.on(kCopy0, kPush);

  EXPECT_EQ(h.first(),
            "moved twice: ag_gemm call 1 rank 0 copy step 2 push chunk 0 rows 0..2 of shard 0, "
            "peer 1 writes gathered@1 rows 0..2, already written by rank 0 copy step 1");
}

TEST(Checker, FindsResultBeforeAdmit) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCompute1, kStore);

  EXPECT_EQ(h.first(),
            "early result: ag_gemm call 1 rank 1 compute 0 step 1 store tile rows 0..2 col 0 "
            "writes out@1 rows 0..2 before all peers are known to be in the call");
}

TEST(Checker, FindsTileComputedTwice) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCompute1, kAdmit);
  h.monitor.on(kCompute1, kStore);
  h.monitor.on(kCompute1, kStore);

  EXPECT_EQ(h.first(),
            "computed twice: ag_gemm call 1 rank 1 compute 0 step 3 store tile rows 0..2 col 0 "
            "writes out@1 rows 0..2, already written by rank 1 compute 0 step 2");
}

TEST(Checker, FindsTileNeverComputed) {
  EXPECT_EQ(first_finding(tiny(Op::gemm_rs), Mutant::lost_tile),
            "never computed: gemm_rs call 1 rank 0 out rows 0..2 col 0");
}

TEST(Checker, FindsFlagThatIsNotRaised) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCopy0, kLanded);
  h.monitor.on(kCopy0, kLanded);

  EXPECT_EQ(
      h.first(),
      "went back: ag_gemm call 1 rank 0 copy step 2 signal landed(shard 0, chunk 0)@1: flag 0 "
      "goes from 1 to 1");
}

TEST(Checker, FindsTwoWritersOfAFlag) {
  ByHand h(tiny(Op::ag_gemm));
  h.monitor.on(kCopy0, kLanded);
  h.monitor.end_call(kCopy1);
  h.monitor.begin_call(kCopy1, 2, h.plan);
  h.monitor.on(kCopy1, kLanded);

  EXPECT_EQ(h.monitor.findings().back().text,
            "race: ag_gemm call 3 rank 1 copy step 1 signal landed(shard 0, chunk 0)@1: flag 0 not "
            "ordered after rank 0 copy, who raised it to 1");
}

TEST(Checker, FindsRanksThatDisagree) {
  ByHand h(tiny(Op::ag_gemm));
  for (int a = 0; a < 4; ++a) h.monitor.end_call(a);
  h.monitor.begin_call(kCopy0, 1, h.plan);
  h.monitor.begin_call(kCopy1, 1, std::make_shared<const CallPlan>(tiny(Op::gemm_rs), 2, 1));

  EXPECT_EQ(h.monitor.findings().back().text,
            "disagree: call 2: rank 1 copy runs gemm_rs mesh push m 4 cols 1 tile_m 2 chunk_rows "
            "2, others run ag_gemm mesh push m 4 cols 1 tile_m 2 chunk_rows 2");
}

TEST(Checker, DoesNotJudgeACallThatWasGivenUp) {
  ByHand h(tiny(Op::ag_gemm));
  for (int a = 0; a < 4; ++a) h.monitor.end_call(a, a != kCopy1);
  EXPECT_EQ(h.first(), "");

  for (int a = 0; a < 4; ++a) h.monitor.begin_call(a, 1, h.plan);
  for (int a = 0; a < 4; ++a) h.monitor.end_call(a);
  EXPECT_EQ(h.first(), "never computed: ag_gemm call 2 rank 0 out rows 0..2 col 0");
}

TEST(Checker, FindsSlotReusedBeforeItsLastReaderIsDone) {
  EXPECT_EQ(first_finding(tiny(Op::ag_gemm), Mutant::one_slot),
            "race: ag_gemm call 1 rank 1 compute 0 step 4 wait landed(shard 0, chunk 0) uses "
            "flags@1 after call 2 has begun to use that slot");
}

TEST(Checker, DeadlockNamesWhoWaitsForWhat) {
  EXPECT_EQ(first_finding(tiny(Op::ag_gemm), Mutant::lost_signal),
            "deadlock: 2 actors wait for flags: ag_gemm call 1 rank 0 compute 0 step 4 waits for "
            "landed(shard 1, chunk 0) from rank 1: flag 1 has 0, wants 1, before compute tile rows "
            "2..4 col 0; ag_gemm call 1 rank 1 compute 0 step 4 waits for landed(shard 0, chunk 0) "
            "from rank 0: flag 0 has 0, wants 1, before compute tile rows 0..2 col 0");
}

TEST(Checker, DeadlockOfResidencyNamesWhoHasNoPlace) {
  EXPECT_EQ(
      first_finding(tiny(Op::gemm_rs), Mutant::waiters_before_senders),
      "deadlock: 2 actors wait for flags, 2 wait for a place: gemm_rs call 1 rank 0 compute 0 "
      "step 5 waits for partial(rank 1, block 0, shard 0, chunk 0) from rank 1: flag 6 has 0, "
      "wants 1, before reduce tile rows 0..2 col 0; gemm_rs call 1 rank 1 compute 0 step 5 "
      "waits for partial(rank 0, block 0, shard 1, chunk 0) from rank 0: flag 5 has 0, wants "
      "1, before reduce tile rows 2..4 col 0");
}

TEST(Checker, LimitsOfSpecsAreNamed) {
  CallSpec s = tiny(Op::gemm_rs);
  s.route = RouteKind::ring;
  s.transport = Transport::pull;
  EXPECT_EQ(legal(s, 2), "transport pull of partials needs route mesh");
  s = tiny(Op::gemm_ar);
  s.rows = {2, 2};
  EXPECT_EQ(legal(s, 2), "gemm_ar takes no rows");
  CheckConfig c;
  c.calls = {tiny(Op::gemm_rs)};
  c.ranks = 2;
  c.workers = 3;
  c.resident = 3;
  EXPECT_EQ(
      legal(c),
      "resident must be 0 (all actors) or at least 4: with fewer actors at a time, gemm_rs may "
      "never end");
}

TEST(Checker, CopyAndOneWorkerAreEnoughForAgGemm) {
  CallSpec s = tiny(Op::ag_gemm);
  s.m = 60;
  CheckConfig c;
  c.calls = {s, s, s};
  c.ranks = 4;
  c.workers = 6;
  c.resident = 2;
  for (const RouteKind route : {RouteKind::mesh, RouteKind::ring, RouteKind::two_level}) {
    for (const Transport transport : {Transport::push, Transport::pull}) {
      for (CallSpec& call : c.calls) call.route = route, call.transport = transport, call.local = 2;
      EXPECT_TRUE(check(c).findings.empty()) << c;
    }
  }
}

CallSpec tiny_shared() {
  CallSpec s = tiny(Op::gemm_ar);
  s.m = 8;
  s.cols = 2;
  s.lag = 1;
  s.transport = Transport::store;
  return s;
}

TEST(Checker, SaysWhatWasSharedOrCollectedTooEarly) {
  EXPECT_EQ(first_finding(tiny_shared(), Mutant::early_signal),
            "race: gemm_ar call 1 rank 0 compute 0 step 17 reduce tile rows 0..2 col 0 reads "
            "incoming@0 rows 0..2, written by rank 1 compute 0 step 5, not ordered");
  EXPECT_EQ(first_finding(tiny_shared(), Mutant::deliver_before_wait),
            "unwritten: gemm_ar call 1 rank 0 compute 0 step 40 deliver tile rows 4..6 col 0 reads "
            "result@0 rows 4..6, which nobody has written");
  EXPECT_EQ(first_finding(tiny_shared(), Mutant::no_admit),
            "early result: gemm_ar call 1 rank 1 compute 0 step 17 store tile rows 4..6 col 0 "
            "writes out@1 rows 4..6 before all peers are known to be in the call");
}

TEST(Checker, LimitsOfSharedTilesAreNamed) {
  CallSpec s = tiny_shared();
  s.transport = Transport::push;
  EXPECT_EQ(legal(s, 2), "lag needs transport store");
  s = tiny_shared();
  s.direct = true;
  EXPECT_EQ(legal(s, 2), "direct is for multimem in two shots");
  s = tiny_shared();
  s.lag = -1;
  EXPECT_EQ(legal(s, 2), "lag must not be negative");
  s = tiny_shared();
  s.blocks = 9;
  EXPECT_EQ(legal(s, 2), "lag is for at most 8 ranks and 8 blocks");
  s = tiny_shared();
  s.op = Op::gemm_rs;
  EXPECT_EQ(legal(s, 2), "lag is for fused gemm_ar over the mesh, without straddle or direct");
}

TEST(Checker, NamesPartialsByTheirNumbers) {
  CallSpec s = tiny(Op::gemm_rs);
  s.transport = Transport::store;
  s.cols = 3;
  const CallPlan plan(s, 2, 1);
  EXPECT_EQ(plan.flag(0, 5).text, "partial(rank 1, tile 2)");
  EXPECT_EQ(plan.flag(0, 5).from, 1);
  s.walk.pairs = true;
  EXPECT_EQ(CallPlan(s, 2, 1).flag(1, 5).text, "partial(rank 0, tile 5)") << "of two CTAs";
}

TEST(Checker, LimitsOfWalksAreNamed) {
  CallSpec s = tiny(Op::ag_gemm);
  s.walk.pairs = true;
  EXPECT_EQ(legal(s, 2), "fields together and pairs are for gemm_rs");
  s.walk = {.apart = 1, .joins = {3}};
  EXPECT_EQ(legal(s, 2), "field apart must be at least -1, and must be 0 if joins has entries");
  s.walk = {.apart = 0, .joins = {3, 4}};
  EXPECT_EQ(legal(s, 2), "joins must have fewer entries than there are ranks");
  s.walk = {.whole = true};
  EXPECT_EQ(legal(s, 2), "field whole is for transport store with apart -1");
  s.walk = {.across = true};
  EXPECT_EQ(legal(s, 2), "field across is for calls with field whole");
  s.transport = Transport::store;
  s.walk = {.apart = 1};
  EXPECT_EQ(legal(s, 9),
            "walks are for fused ag_gemm and gemm_rs of at most 8 ranks, without straddle");
  s.op = Op::gemm_rs;
  EXPECT_EQ(legal(s, 2), R"(fields "apart", "joins", "whole" and "across" are for ag_gemm)");
  s.walk = {.pairs = true};
  EXPECT_EQ(legal(s, 3), "field pairs needs an even number of ranks, and field together off");
  s.transport = Transport::push;
  EXPECT_EQ(legal(s, 2), "gemm_rs with a walk: transport must be store");
  s.walk = {.deep = 0};
  EXPECT_EQ(legal(s, 2), "fields wide and deep must be at least 1");
  EXPECT_EQ(legal(tiny(Op::gemm_rs), 65), "ranks must be at most 64");
}

TEST(Checker, SpecOfASchedulesPlanIsTheSpec) {
  CallSpec gather = tiny(Op::ag_gemm);
  gather.rows = {3, 1};
  gather.deliver = true;
  CallSpec reduce = tiny(Op::gemm_ar);
  reduce.blocks = 2;
  reduce.block_grain = 4;
  reduce.route = RouteKind::two_level;
  reduce.local = 2;
  for (const CallSpec& spec : {gather, reduce}) {
    const CallPlan plan(spec, 2, 3);
    EXPECT_EQ(plan.visit(1, [](const auto& s) { return spec_of(s); }), spec);
  }
}

}  // namespace
}  // namespace tilelace::check
