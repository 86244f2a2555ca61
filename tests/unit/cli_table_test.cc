// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "progress.h"
#include "table.h"

namespace tilelace::cli {
namespace {

Row sample_row() {
  Row r;
  r.layer = "attn_out";
  r.label = "5.attn_out";
  r.op = "gemm_rs";
  r.m = 8192;
  r.n = 57344;
  r.k = 12288;
  r.us = {100.0, 50.0, 160.0, 130.0, 112.0};
  r.error = 0.00201;
  r.exact = true;
  r.verified = true;
  return r;
}

TEST(CliTable, TimesFitSixCharacters) {
  EXPECT_EQ(show_us(0.4), "0.40");
  EXPECT_EQ(show_us(12.34), "12.3");
  EXPECT_EQ(show_us(999.6), "1000");
  EXPECT_EQ(show_us(123456.7), "123457");
  EXPECT_EQ(show_us(1234567), "1.23s");
  EXPECT_EQ(show_us(123456789), "123s");
  EXPECT_EQ(show_us(-12.34), "-12.3");
  EXPECT_EQ(show_us(std::nullopt), "-");
}

TEST(CliTable, FiguresFollowFromTheTimes) {
  const Row r = sample_row();
  EXPECT_DOUBLE_EQ(*r.ect(), 12);
  EXPECT_DOUBLE_EQ(*r.efficiency(), 0.8);
  EXPECT_DOUBLE_EQ(*r.roof(), 100);
  EXPECT_DOUBLE_EQ(*r.speedup(), 160.0 / 112);
}

TEST(CliTable, NoEfficiencyWhereUnfusedIsNoSlowerThanTheGemm) {
  Row r = sample_row();
  r.us[static_cast<std::size_t>(Way::unfused)] = 100;
  EXPECT_FALSE(r.efficiency());
  r.us[static_cast<std::size_t>(Way::gemm)].reset();
  EXPECT_FALSE(r.ect());
  EXPECT_FALSE(r.roof());
}

TEST(CliTable, WideRowsFitATerminal) {
  const Row r = sample_row();
  const Table table = row_table({r});
  EXPECT_EQ(
      table.header(),
      "layer      op         m     n     k path      GEMM  coll. unfus. medium  fused    ECT  "
      "   E speed roof  error exact  ok");
  EXPECT_EQ(
      table.line(row_cells(r)),
      "5.attn_out gemm_rs 8192 57344 12288 fused    100.0   50.0  160.0  130.0  112.0   12.0  "
      "0.80  1.43  89% 2.0e-3   yes yes");
  EXPECT_LE(table.header().size(), 120U);
}

TEST(CliTable, WrongRowsShowIt) {
  Row r = sample_row();
  r.verified = false;
  r.exact = std::nullopt;
  const auto cells = row_cells(r);
  EXPECT_EQ(cells.back(), "NO");
  EXPECT_EQ(cells[cells.size() - 2], "-");
  EXPECT_FALSE(r.good());
}

TEST(CliTable, Quantiles) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
}

TEST(CliProgress, Text) {
  EXPECT_EQ(progress_text(0, 20, "starting", 1.2), "[--------------------]  0/20  starting  1 s");
  EXPECT_EQ(progress_text(5, 20, "qkv", 3), "[#####---------------]  5/20  qkv  3 s");
  EXPECT_EQ(progress_text(20, 20, "qkv", 3), "[####################] 20/20  qkv  3 s");
  EXPECT_EQ(progress_text(0, 0, "x", 0), "[--------------------] 0/0  x  0 s");
}

}  // namespace
}  // namespace tilelace::cli
