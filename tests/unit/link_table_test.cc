// SPDX-License-Identifier: Apache-2.0
// Which link a pair of ranks gets.
#include "comm/link_table.h"

#include <gtest/gtest.h>

namespace tilelace::comm {
namespace {

LinkKind kind_of(const RankPair& pair) { return link_of(pair).kind; }

TEST(LinkTable, CpuRanksShareMemoryUnlessAWireIsAskedFor) {
  EXPECT_EQ(kind_of({.device = Device::cpu}), LinkKind::shared_memory);
  EXPECT_EQ(kind_of({.device = Device::cpu, .metered = true}), LinkKind::wire);
}

TEST(LinkTable, GpusThatDoNotReachEachOtherHaveNcclAlone) {
  EXPECT_EQ(kind_of({.device = Device::cuda}), LinkKind::peer_memory);
  EXPECT_EQ(kind_of({.device = Device::cuda, .reached = false}), LinkKind::nccl);
}

TEST(LinkTable, WhatMapsRaisesFlagsToo) {
  for (const LinkRow& row : link_table()) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_TRUE(row.signals || !row.maps) << row.name;
  }
}

}  // namespace
}  // namespace tilelace::comm
