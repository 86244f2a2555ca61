// SPDX-License-Identifier: Apache-2.0
// What `bench` makes of mixtures of experts: routings, times, the record.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "moe/layer_record.h"
#include "moe/measure.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

MoeLayer layer() {
  MoeLayer l;
  l.hidden = l.inner = 16, l.experts = 12, l.top_k = 4, l.m = 500;
  return l;
}

TEST(CliMoe, RoutingsHaveNamesAndOpsTheirOwn) {
  EXPECT_EQ(parse_routings("hot,uniform"),
            (std::vector<RoutingKind>{RoutingKind::hot, RoutingKind::uniform}));
  EXPECT_THROW(parse_routings("cold"), Error);
  EXPECT_TRUE(are_moe("bench", "moe_rs,moe_ar"));
  EXPECT_FALSE(are_moe("bench", "gemm_rs"));
  EXPECT_THROW(are_moe("bench", "moe_rs,gemm_rs"), Error);
}

TEST(CliMoe, ChoicesOfATokenDifferAndWeightsAddUpToOne) {
  const MoeLayer l = layer();
  for (const auto kind : {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::hot}) {
    const Routed r = make_routing(kind, l, l.m);
    for (std::int64_t t = 0; t < l.m; ++t) {
      const auto at = static_cast<std::ptrdiff_t>(t * l.top_k);
      const std::set<std::int32_t> ids(r.ids.begin() + at, r.ids.begin() + at + l.top_k);
      EXPECT_EQ(std::ssize(ids), l.top_k);
      EXPECT_TRUE(*ids.begin() >= 0 && *ids.rbegin() < l.experts);
      float sum = 0;
      for (std::int64_t s = 0; s < l.top_k; ++s) sum += r.weights[static_cast<std::size_t>(at + s)];
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    EXPECT_EQ(r.ids, make_routing(kind, l, l.m).ids);
  }
}

TEST(CliMoe, ImbalanceIsTheFullestExpertsShare) {
  const MoeLayer l = layer();
  const auto of = [&](RoutingKind kind) {
    return imbalance(expert_rows(make_routing(kind, l, l.m), l, l.m));
  };
  EXPECT_NEAR(of(RoutingKind::hot), 3, 1e-9);  // 500 of 2000 rows
  EXPECT_LT(of(RoutingKind::uniform), 1.2);
  EXPECT_GT(of(RoutingKind::zipf), of(RoutingKind::uniform));
  EXPECT_EQ(imbalance({0, 0}), 1);
}

TEST(CliMoe, TimesTravelAndAreRecorded) {
  const MoeTimes t{"moe_ar", RoutingKind::zipf, 7, 1.5, {3, 1, 2}, {30, 10, 20}, "a complaint"};
  const MoeTimes back = moe_times_of(to_text(t));
  EXPECT_EQ(back.us, t.us);
  EXPECT_EQ(back.complaint, t.complaint);
  MoeWork work;
  work.layer = layer(), work.ranks = 2;
  const auto r = nlohmann::json::parse(moe_record(work, back));
  EXPECT_EQ(r["schema"], "tilelace.moe/1");
  EXPECT_EQ(r["us"], 20);
  EXPECT_EQ(r["first_us"], 2);
  EXPECT_EQ(r["inner"], 32);
  EXPECT_EQ(r["routing"], "zipf");
  EXPECT_EQ(r["verified"], false);
  EXPECT_TRUE(r["model"].is_null());
}

TEST(CliMoe, ARecordOfTilesHasTheProductOfARankAndAllTimes) {
  MoeWork work;
  work.ranks = 2;
  work.layer = layer();
  const auto r = nlohmann::json::parse(
      tiles_record(work, {100, true, {{"many", 5}, {"brief", 6}, {"few", 7}}, 7}));
  EXPECT_EQ(r["op"], "grouped_gemm");
  EXPECT_EQ(r["product"], "up");
  EXPECT_EQ(r["rows"], 400);
  EXPECT_EQ(r["rank_n"], 32);  // gates and ups
  EXPECT_EQ(r["rank_k"], 16);
  EXPECT_EQ(r["rule_us"], 7);
  EXPECT_EQ(r["candidates"].size(), 3U);
  EXPECT_EQ(r["candidates"][1]["tiles"], "brief");
  EXPECT_EQ(r["candidates"][1]["us"], 6);
  const auto untimed = nlohmann::json::parse(tiles_record(work, {100, false, {{"few", 7}}, 0}));
  EXPECT_EQ(untimed["product"], "down");
  EXPECT_TRUE(untimed["rule_us"].is_null());
}

}  // namespace
}  // namespace tilelace::cli
