// SPDX-License-Identifier: Apache-2.0
// What the table of ops says, and what follows from it.
#include "tilelace/op_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tilelace {
namespace {

std::vector<std::string_view> names_where(bool (*fact)(const OpRow&)) {
  std::vector<std::string_view> names;
  for (const OpRow& row : op_table())
    if (fact(row)) names.push_back(row.name);
  return names;
}
using Names = std::vector<std::string_view>;

TEST(OpTable, EveryRowIsFoundByItsNumberAndByItsName) {
  std::set<std::string_view> names;
  for (const OpRow& row : op_table()) {
    EXPECT_EQ(&row_of(row.op), &row);
    EXPECT_EQ(op_of(row.name), row.op);
    EXPECT_EQ(name_of(row.op), row.name);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  }
}

TEST(OpTable, WhatIsNoOpHasNoFacts) {
  const OpRow& none = row_of(static_cast<Op>(op_table().size()));
  EXPECT_TRUE(none.operands.empty());
  EXPECT_FALSE(none.gathers || none.sums || none.shares || none.many() || none.shards());
  EXPECT_EQ(op_of(none.name), std::nullopt);
  EXPECT_EQ(op_of("gemm"), std::nullopt);
}

TEST(OpTable, FactsAreTheOps) {
  EXPECT_EQ(names_where([](const OpRow& r) { return r.gathers; }), Names{"ag_gemm"});
  EXPECT_EQ(names_where([](const OpRow& r) { return r.sums; }), (Names{"gemm_rs", "gemm_ar"}));
  EXPECT_EQ(names_where([](const OpRow& r) { return r.scatters(); }), Names{"gemm_rs"});
  EXPECT_EQ(names_where([](const OpRow& r) { return r.shares; }), Names{"gemm_ar"});
  EXPECT_EQ(names_where([](const OpRow& r) { return r.many(); }), Names{"ag_gemm"});
  EXPECT_EQ(names_where([](const OpRow& r) { return r.shards(); }), (Names{"ag_gemm", "gemm_rs"}));
  EXPECT_EQ(names_where([](const OpRow& r) { return !r.multiplies(); }), Names{});
}

TEST(OpTable, FactsAndOperandsSayTheSame) {
  for (const OpRow& row : op_table()) {
    SCOPED_TRACE(row.name);
    ASSERT_NE(row.operand(Role::input), nullptr);
    ASSERT_NE(row.operand(Role::out), nullptr);
    EXPECT_EQ(row.gathers, row.operand(Role::input)->rows == Extent::m_r);
    EXPECT_EQ(row.gathers, row.operand(Role::gathered) != nullptr);
    EXPECT_EQ(row.sums, row.operand(Role::residual) != nullptr);
    EXPECT_EQ(row.scatters(), row.operand(Role::out)->rows == Extent::m_r);
    EXPECT_EQ(row.many(), row.operand(Role::out)->many);
  }
}

}  // namespace
}  // namespace tilelace
