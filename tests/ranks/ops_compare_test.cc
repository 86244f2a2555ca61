// SPDX-License-Identifier: Apache-2.0
// Calls that are compared byte by byte before they begin (TILELACE_COMPARE_CALLS).
#include <cstdlib>

#include "ops_usage_helpers.h"

namespace tilelace::usage {
namespace {

/// Ranks whose calls are compared.
std::vector<Communicator> comparing_ranks() {
  setenv("TILELACE_COMPARE_CALLS", "1", 1);
  auto members = Communicator::threads(kRanks, {.workers = 1, .timeout_s = 20});
  unsetenv("TILELACE_COMPARE_CALLS");
  return members;
}

/// Every rank's good call of each op, which `spoil` may change; then good calls.
template <class Spoil>
Texts spoiled_calls(const Spoil& spoil) {
  auto members = comparing_ranks();
  const Texts texts = on_ranks([&](int r) {
    Rank rank(r);
    Communicator& c = members[static_cast<std::size_t>(r)];
    c.prepare(rank.preparations());
    Arguments call = rank.good(kScatter);
    rank.poison();
    spoil(r, call, c);
    const std::string wrong = caught([&] { call.call(c); });
    EXPECT_TRUE(wrong.empty() || rank.untouched()) << r;
    for (const Op op : {kGather, kScatter, kAllReduce}) {
      rank.good(op).call(c);
      EXPECT_EQ(wrong_number(op, rank, r), "");
    }
    if (!wrong.empty()) throw Error(ErrorKind::usage, wrong);
  });
  return texts;
}

TEST(OpsCompare, EqualCallsGoOn) {
  for (const std::string& text : spoiled_calls([](int, Arguments&, Communicator&) {}))
    EXPECT_EQ(text, "");
}

TEST(OpsCompare, AChoiceThatDiffersIsToldOnEveryRankBeforeAnythingIsWritten) {
  const auto texts = spoiled_calls([](int r, Arguments& call, Communicator&) {
    if (r == 1) call.options.chunk_rows = 1;
    if (r != 1) call.options.chunk_rows = 2;
  });
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("usage: gemm_rs: rank "), std::string::npos) << text;
    EXPECT_NE(text.find(" chunk 1 "), std::string::npos) << text;
    EXPECT_NE(text.find(" chunk 2 "), std::string::npos) << text;
  }
}

TEST(OpsCompare, ARefusalReachesThePeers) {
  const auto texts = spoiled_calls([](int r, Arguments& call, Communicator&) {
    if (r == 2) move(call.reduce.x, 4);
  });
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_NE(texts[r].find("x"), std::string::npos) << texts[r];
    EXPECT_EQ(texts[r].find("rank 2 refused to call: ") != std::string::npos, r != 2) << texts[r];
  }
}

}  // namespace
}  // namespace tilelace::usage
