// SPDX-License-Identifier: Apache-2.0
// The collectives of a layer of experts: what they move is what the public header says.
#include "plan/collectives/expert_collectives.h"

#include <gtest/gtest.h>

namespace tilelace::plan {
namespace {

MoeLayer layer() {
  MoeLayer l;
  l.dtype = DType{};
  l.hidden = 1024, l.inner = 256, l.experts = 8, l.top_k = 2;
  return l;
}

/// In chunks, which send every byte once.
CollectivePlan chunks(int shots) {
  CollectivePlan p;
  p.shots = shots;
  return p;
}

TEST(ExpertCollectives, RanksSendTheirTokensIdsAndWeightsToAllOthers) {
  const MoeLayer l = layer();
  const double item = static_cast<double>(size_of(l.dtype));
  const auto gathers = expert_gathers(l, 10, 4);  // 3, 3, 2, 2 tokens
  ASSERT_EQ(gathers.size(), 3U);
  EXPECT_EQ(sent_bytes(gathers[0].call, chunks(1), 0), 3 * 3 * 1024 * item);
  EXPECT_EQ(sent_bytes(gathers[0].call, chunks(1), 3), 3 * 2 * 1024 * item);
  EXPECT_EQ(sent_bytes(gathers[1].call, chunks(1), 0), 3 * 3 * 2 * 4);  // int32
  EXPECT_EQ(sent_bytes(gathers[2].call, chunks(1), 0), 3 * 3 * 2 * 4);  // fp32
  CollectivePlan lines = chunks(1);
  lines.lines = true;
  EXPECT_EQ(sent_bytes(gathers[1].call, lines, 0), 2 * 3 * 3 * 2 * 4);
}

TEST(ExpertCollectives, ReplicatedTokensAreNotGathered) {
  MoeLayer l = layer();
  l.replicated = true;
  EXPECT_TRUE(expert_gathers(l, 10, 4).empty());
}

TEST(ExpertCollectives, SumsLeaveForTheirOwnersOrForAllRanks) {
  const MoeLayer l = layer();
  const double row = 1024 * static_cast<double>(size_of(l.dtype));
  const auto scatter = expert_sum(l, 10, 4, Collective::reduce_scatter);
  EXPECT_EQ(sent_bytes(scatter.call, chunks(1), 0), 7 * row);
  EXPECT_EQ(sent_bytes(scatter.call, chunks(1), 3), 8 * row);
  const auto all = expert_sum(l, 10, 4, Collective::all_reduce);
  EXPECT_EQ(sent_bytes(all.call, chunks(1), 0), 30 * row);
  EXPECT_EQ(sent_bytes(all.call, chunks(2), 0), 15 * row);
}

TEST(ExpertCollectives, PlansPredictWhatTheirFiguresSay) {
  const auto call = expert_sum(layer(), 8192, 2, Collective::reduce_scatter).call;
  const CollectiveMachine machine{.workers = 132};
  const CollectivePlan p = plan_collective(call, machine, {}, false);
  Hardware h{};
  h.call_us = 3, h.flag_us = 2, h.store_gbps = 300;
  EXPECT_FALSE(p.lines);
  EXPECT_DOUBLE_EQ(collective_us(call, p, h), 7 + sent_bytes(call, p, 0) * 1e-3 / 300);
  h.store_gbps = 150;
  EXPECT_DOUBLE_EQ(collective_us(call, p, h), 7 + sent_bytes(call, p, 0) * 1e-3 / 150);
}

}  // namespace
}  // namespace tilelace::plan
