// SPDX-License-Identifier: Apache-2.0
// What the table of transports says.
#include "tilelace/transport_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

namespace tilelace {
namespace {

using Names = std::vector<std::string_view>;

Names names_where(bool (*fact)(const TransportRow&)) {
  Names names;
  for (const TransportRow& row : transport_table())
    if (fact(row)) names.push_back(row.name);
  return names;
}

TEST(TransportTable, EveryRowIsFoundByItsNumber) {
  std::set<std::string_view> names;
  for (const TransportRow& row : transport_table()) {
    EXPECT_EQ(&row_of(row.transport), &row);
    EXPECT_EQ(name_of(row.transport), row.name);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(TransportTable, WhatIsNoTransportHasNoFacts) {
  const auto unknown = static_cast<Transport>(transport_table().size());
  for (const TransportRow& none : {row_of(unknown), row_of(std::optional<Transport>())}) {
    EXPECT_EQ(none.name, "?");
    EXPECT_FALSE(none.pulls || none.gpus || none.pushes() || none.by_workers());
    EXPECT_FALSE(none.needs_nccl() || none.needs_multicast());
  }
}

TEST(TransportTable, FactsAreTheTransports) {
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.pushes(); }), Names{"push"});
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.pulls; }), Names{"pull"});
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.by_workers(); }), Names{"store"});
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.needs_nccl(); }), Names{"nccl"});
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.needs_multicast(); }),
            Names{"multimem"});
  EXPECT_EQ(names_where([](const TransportRow& t) { return t.gpus; }), (Names{"nccl", "multimem"}));
}

TEST(TransportTable, ATransportIsFoundByWhoCarries) {
  EXPECT_EQ(transport_that(Carrier::engine), Transport::push);
  EXPECT_EQ(transport_that(Carrier::engine, true), Transport::pull);
  EXPECT_EQ(transport_that(Carrier::worker), Transport::store);
}

}  // namespace
}  // namespace tilelace
