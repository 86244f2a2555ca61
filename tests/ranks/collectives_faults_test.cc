// SPDX-License-Identifier: Apache-2.0
// Collectives that go wrong: ranks that disagree, refuse, leave or are silent.
#include <csignal>

#include "collectives_helpers.h"
#include "comm_helpers.h"
#include "core/points.h"
#include "ops_usage_helpers.h"

namespace tilelace::collectives_test {
namespace {

using usage::caught;
using usage::kRanks;
using usage::on_ranks;
using usage::Texts;

/// What a rank calls, in memory of its own.
struct OneCall {
  Collective collective = Collective::all_reduce;
  Item item = Item::fp32;
  Reduction reduction = Reduction::sum;
  Counts counts = {12}, takes;
  CollectiveOptions options;

  void make(Communicator& c, std::vector<std::int64_t>& out) const {
    const std::vector<std::int64_t> in(200, 1);
    collect(c, collective, {in.data(), out.data(), item, reduction, counts, takes}, options);
  }
};

const Case kGood{Collective::all_reduce, Item::bf16, Reduction::sum, {97}, {}, true, false, {}, 1};

/// Every rank makes its call, then good ones. Errors alone leave results as they were.
Texts calls_of(std::vector<Communicator>& members, const std::array<OneCall, kRanks>& calls) {
  Texts texts;
  on_ranks([&](int r) {
    std::vector<std::int64_t> out(200, -1);
    texts[r] = caught([&] { calls[r].make(members[r], out); });
    const bool pairs = calls[r].collective == Collective::all_to_all;
    if (!texts[r].empty() && !pairs) {
      EXPECT_EQ(out, std::vector<std::int64_t>(200, -1));
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(wrong_result(members[r], kGood), "");
  });
  return texts;
}

std::vector<Communicator> three_ranks() {
  return Communicator::threads(kRanks, {.workers = 2, .timeout_s = 20});
}

TEST(CollectivesFaults, RanksThatDisagreeAllGetBothSides) {
  auto members = three_ranks();
  const OneCall good;
  std::vector<OneCall> others(6, good);
  others[0].item = Item::i32;
  others[1].counts = {13};
  others[2].collective = Collective::reduce_scatter;
  others[3].reduction = Reduction::max;
  others[4].options.shots = 2;
  others[5].options = {.lines = {}, .shots = {}, .workers = {}, .chunk = 16};
  for (std::size_t i = 0; i < others.size(); ++i) {
    SCOPED_TRACE(i);
    OneCall first = good;
    first.options.shots = 1;
    for (const std::string& text : calls_of(members, {first, others[i], first})) {
      EXPECT_NE(text.find("usage: "), std::string::npos) << text;
      EXPECT_NE(text.find("called [all_reduce of fp32 sum, counts 12; "), std::string::npos)
          << text;
      EXPECT_NE(text.find("rank 1 called ["), std::string::npos) << text;
      EXPECT_NE(text.find("all ranks must make the same call"), std::string::npos) << text;
    }
  }
}

TEST(CollectivesFaults, TheFirstCallOfRanksMayDisagree) {
  auto members = three_ranks();
  OneCall other;
  other.counts = {13};
  for (const std::string& text : calls_of(members, {OneCall{}, OneCall{}, other}))
    EXPECT_NE(text.find("all ranks must make the same call"), std::string::npos) << text;
}

TEST(CollectivesFaults, APairOfAnAllToAllThatDoesNotFitEndsItForAll) {
  auto members = three_ranks();
  const OneCall fits{Collective::all_to_all, Item::i64, Reduction::sum, {4, 4, 4}, {4, 4, 4}, {}};
  for (int round = 0; round < 20; ++round) {
    OneCall sends_more = fits;
    sends_more.counts = {4, 4, 5};  // to rank 2, which takes 4
    for (const std::string& text : calls_of(members, {fits, sends_more, fits})) {
      EXPECT_NE(text.find("counts 4,4,5, takes 4,4,4"), std::string::npos) << text;
      EXPECT_NE(text.find("counts 4,4,4, takes 4,4,4"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(calls_of(members, {fits, fits, fits}), Texts{});
}

TEST(CollectivesFaults, ARefusalReachesThePeers) {
  for (const bool prepared : {false, true}) {
    auto members = three_ranks();
    if (prepared) on_ranks([&](int r) { prepare_collectives(members[r]); });
    OneCall bad;
    bad.counts = {-1};
    const std::string own =
        "all_reduce: counts: got an entry -1, expected 0 or more, at most 1099511627776 "
        "elements in all";
    const std::string told = "usage: all_reduce: rank 1 refused its call: " + own;
    EXPECT_EQ(calls_of(members, {OneCall{}, bad, OneCall{}}), (Texts{told, "usage: " + own, told}));
    EXPECT_EQ(calls_of(members, {bad, bad, bad}),
              (Texts{"usage: " + own, "usage: " + own, "usage: " + own}));
  }
}

TEST(CollectivesFaults, ACollectiveThatMeetsAProductIsNamed) {
  usage::World world(usage::kPrepared);
  for (int round = 0; round < 2; ++round) {
    const auto texts = on_ranks([&](int r) {
      std::vector<std::int64_t> out(200, -1);
      if (r == 1) return world.ranks[r].good(Op::gemm_rs).call(world.members[r]);
      OneCall{}.make(world.members[r], out);
    });
    for (const std::string& text : texts) {
      EXPECT_NE(text.find("all_reduce of fp32"), std::string::npos) << text;
      EXPECT_NE(text.find("gemm_rs"), std::string::npos) << text;
    }
    world.expect_intact();
    on_ranks([&](int r) { prepare_collectives(world.members[r]); });
  }
}

TEST(CollectivesFaults, APeerThatLeavesEndsTheCall) {
  for (const bool first : {false, true}) {
    auto members = three_ranks();
    if (!first) calls_of(members, {OneCall{}, OneCall{}, OneCall{}});
    const comm::test::Stopwatch watch;
    const auto texts = on_ranks([&](int r) {
      std::vector<std::int64_t> out(200, -1);
      if (r == 1) {
        const Communicator gone = std::move(members[1]);
        return;
      }
      OneCall{}.make(members[r], out);
    });
    for (const int r : {0, 2}) EXPECT_EQ(texts[r].rfind("peer: ", 0), 0U) << texts[r];
    EXPECT_LT(watch.seconds(), 15);
  }
}

/// Where rank 1 of the next test is killed, and at which of its visits.
const char* deadly_point = nullptr;
int visits_left = 0;

void die(const char* point, int rank) {
  if (rank == 1 && std::string_view(point) == deadly_point && --visits_left == 0) raise(SIGKILL);
}

TEST(CollectivesFaults, APeerThatIsKilledEndsTheCall) {
  for (const char* point : {"copy.before_header", "compute.before_flag", "compute.after_wait",
                            "compute.before_store"}) {
    const comm::test::TemporaryPath meeting;
    std::vector<pid_t> pids;
    for (int r = 0; r < kRanks; ++r) {
      pids.push_back(comm::test::fork_child([&] {
        deadly_point = point;
        visits_left = 40;
        points::hook = die;
        auto c = Communicator::process(r, kRanks, meeting.path(), {.workers = 1, .timeout_s = 20});
        const std::string end = caught([&] {
          for (;;) CHILD_CHECK(wrong_result(c, kGood).empty());
        });
        CHILD_CHECK(end.rfind("peer: ", 0) == 0);
      }));
    }
    const comm::test::Stopwatch watch;
    for (int r = 0; r < kRanks; ++r) {
      const int status = comm::test::status_of(pids[static_cast<std::size_t>(r)]);
      if (r == 1) {
        EXPECT_TRUE(WIFSIGNALED(status)) << point;
      } else {
        EXPECT_EQ(status, 0) << point;
      }
    }
    EXPECT_LT(watch.seconds(), 15) << point;
  }
}

TEST(CollectivesFaults, ASilentPeerEndsTheCallInTime) {
  auto members = Communicator::threads(kRanks, {.workers = 1, .timeout_s = 0.5});
  on_ranks([&](int r) { prepare_collectives(members[r]); });
  const auto texts = on_ranks([&](int r) {
    std::vector<std::int64_t> out(200, -1);
    if (r != 1) OneCall{}.make(members[r], out);
  });
  for (const int r : {0, 2}) {
    EXPECT_EQ(texts[r].rfind("timeout: ", 0), 0U) << texts[r];
  }
}

}  // namespace
}  // namespace tilelace::collectives_test
