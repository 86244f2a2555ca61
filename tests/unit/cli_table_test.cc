// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "nearest.h"
#include "progress.h"
#include "table.h"
#include "text_width.h"

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
  EXPECT_DOUBLE_EQ(*r.longer_us(), 100);
  EXPECT_DOUBLE_EQ(*r.speedup(), 160.0 / 112);
}

TEST(CliTable, NoEfficiencyWhereUnfusedIsNoSlowerThanTheGemm) {
  Row r = sample_row();
  r.us[static_cast<std::size_t>(Way::unfused)] = 100;
  EXPECT_FALSE(r.efficiency());
  r.us[static_cast<std::size_t>(Way::gemm)].reset();
  EXPECT_FALSE(r.ect());
  EXPECT_FALSE(r.longer_us());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t longest_of(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, line.size());
  return most;
}

TEST(CliTable, WideRowsFitATerminal) {
  const Row r = sample_row();
  const Table table = row_table({r}, 100);
  EXPECT_EQ(table.header(),
            "layer      op         m     n     k   GEMM  coll. unfus. medium  fused     E speed "
            "longer  error  ok");
  EXPECT_EQ(table.line(row_cells(r)),
            "5.attn_out gemm_rs 8192 57344 12288  100.0   50.0  160.0  130.0  112.0  0.80  1.43 "
            "   89% 2.0e-3 yes");
  EXPECT_EQ(lines_of(table.legend()).size(), 3U) << table.legend();
  EXPECT_NE(table.legend().find("More: --wide."), std::string::npos) << table.legend();
}

TEST(CliTable, AllColumnsOnDemand) {
  const Row r = sample_row();
  const Table table = row_table({r}, 0);
  EXPECT_EQ(
      table.header(),
      "layer      op         m     n     k path      GEMM  coll. unfus. medium  fused    ECT  "
      "   E speed longer  error exact  ok");
  EXPECT_EQ(
      table.line(row_cells(r)),
      "5.attn_out gemm_rs 8192 57344 12288 fused    100.0   50.0  160.0  130.0  112.0   12.0  "
      "0.80  1.43    89% 2.0e-3   yes yes");
  EXPECT_LE(lines_of(table.legend()).size(), 3U) << table.legend();
  EXPECT_EQ(table.legend().find("--wide"), std::string::npos) << table.legend();
}

TEST(CliTable, WhatMattersLeastIsLeftOutFirst) {
  const Row r = sample_row();
  for (std::size_t columns = 60; columns <= 140; columns += 10) {
    const Table table = row_table({r}, static_cast<int>(columns));
    EXPECT_LE(longest_of(table.legend()), columns);
    if (columns >= 80) {
      EXPECT_LE(longest_of(table.header()), columns);
      EXPECT_LE(longest_of(table.line(row_cells(r))), columns);
      EXPECT_LE(lines_of(table.legend()).size(), 3U) << table.legend();
    }
    for (const char* always : {"layer", " m ", " GEMM", "unfus.", "fused", "speed", " ok"})
      EXPECT_NE(table.header().find(always), std::string::npos) << always << columns;
  }
}

TEST(CliTable, TextGoesOnInTheNextLine) {
  const Table table({{"name", 6, true}, {"what", 0, true}}, "", 24);
  EXPECT_EQ(table.line({"a", "the last column goes on below itself"}),
            "a      the last column\n       goes on below\n       itself");
}

TEST(CliTable, OfTuneFits) {
  Row r = sample_row();
  r.candidates = {{{{}, "unfused push in two shots", 0}, 1234567.8}};
  r.planned_us = 2345678.9;
  const Table table = tune_table({r}, 100);
  EXPECT_EQ(table.header(), "layer      op         m     n     k     us     gain kind");
  EXPECT_EQ(table.line(tune_cells(r)),
            "5.attn_out gemm_rs 8192 57344 12288  1.23s  +90.0 % unfused push in two shots");
  EXPECT_LE(lines_of(table.legend()).size(), 3U);
}

TEST(CliTable, UnsteadyTimesSayWhy) {
  EXPECT_EQ(unsteady_text({.ranks = 4, .workers = 1, .cores = 2, .spread = 1.9}), "");
  EXPECT_EQ(unsteady_text({.ranks = 4, .workers = 1, .cores = 2, .spread = 2.1}),
            "Times are unsteady (fused times differ by more than a factor of 2): 4 ranks with 1 "
            "worker each share 2 cores. Repeat before you compare.\n");
  EXPECT_EQ(unsteady_text({.ranks = 2, .workers = 4, .cores = 8, .spread = 1.1, .shorter = 3}),
            "Times are unsteady (3 rows took less than GEMM or collective alone): something else "
            "may use these 8 cores. Repeat before you compare.\n");
}

TEST(CliText, IsFilled) {
  EXPECT_EQ(filled("one two three", 7), "one two\nthree");
  EXPECT_EQ(filled("one two three", 0), "one two three");
  EXPECT_EQ(filled("  a bb ccc dddd", 8, 4), "  a bb\n    ccc\n    dddd");
  EXPECT_EQ(filled("averylongword and more", 5), "averylongword\nand\nmore");
  EXPECT_EQ(filled("  averylongword", 5), "  averylongword");
  EXPECT_EQ(filled("a b\n\nc d\n", 2), "a\nb\n\nc\nd\n");
  EXPECT_EQ(filled("", 5), "");
}

TEST(CliText, ColumnsAreTheEnvironments) {
  setenv("COLUMNS", "72", 1);
  EXPECT_EQ(text_columns(), 72);
  for (const char* nonsense : {"", "wide", "-3", "0", "72x"}) {
    setenv("COLUMNS", nonsense, 1);
    EXPECT_NE(text_columns(), 72) << nonsense;
    EXPECT_GT(text_columns(), 0) << nonsense;
  }
  unsetenv("COLUMNS");
}

TEST(CliText, MisspeltWordsHaveANeighbour) {
  const std::vector<std::string> words{"run", "bench", "plan", "simulate"};
  EXPECT_EQ(nearest("benhc", words), "bench");
  EXPECT_EQ(nearest("simulte", words), "simulate");
  EXPECT_EQ(nearest("plan", words), "plan");
  EXPECT_EQ(nearest("fly", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
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

/// The column of integers may be left out; a wrong one still shows.
TEST(CliTable, WrongIntegersAreNotOk) {
  Row r = sample_row();
  r.exact = false;
  EXPECT_EQ(row_cells(r).back(), "NO");
  r.exact = r.verified = std::nullopt;
  EXPECT_EQ(row_cells(r).back(), "-");
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
