// SPDX-License-Identifier: Apache-2.0
// The file that `tilelace tune` writes: gone on with, merged, and read back by communicators.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "folder.h"
#include "places.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/tuning/tuning_table.h"
#include "plan/words/agreement.h"
#include "plan/words/plan_words.h"
#include "tilelace/error.h"
#include "tuning_file.h"

namespace tilelace::cli {
namespace {

GpuFacts two_h200s() {
  GpuFacts gpus;
  gpus.count = 2;
  gpus.name = "NVIDIA H200";
  gpus.multiprocessors = 132;
  return gpus;
}

Problem gather(std::int64_t m, bool gated) {
  Problem p;
  p.op = Op::ag_gemm;
  p.ranks = 2;
  p.m = m;
  p.n = {1024, 1024};
  p.k = 4096;
  p.dtype = DType::bf16;
  if (gated) p.activation = Activation::swiglu;
  return p;
}

Plan plan_number(const Problem& p, std::size_t number) {
  return plan::cuda_ways(p, cuda_machine()).at(number).plan;
}

class TuningFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path at(const char* name) const { return folder_ / name; }

 private:
  test::Folder folder_;
};

TEST_F(TuningFileTest, WhatItWritesCommunicatorsRead) {
  TuningFile file(at("a.json"), two_h200s());
  const Problem p = gather(256, false);
  EXPECT_FALSE(file.has(p));
  file.put(p, plan_number(p, 3), {21.5, 23.0, 12});
  file.write();
  const auto table = read_tuning(at("a.json").string());
  ASSERT_EQ(table->rows.size(), 1U);
  EXPECT_TRUE(table->notes.empty());
  EXPECT_TRUE(table->fits(cuda_machine()));
  EXPECT_EQ(table->rows[0].us, 21.5);
  EXPECT_EQ(plan::choice_bytes(table->rows[0].plan), plan::choice_bytes(plan_number(p, 3)));
}

TEST_F(TuningFileTest, ItGoesOnWhereItWas) {
  {
    TuningFile file(at("a.json"), two_h200s());
    file.put(gather(256, false), plan_number(gather(256, false), 0), {21.5, 0, 12});
    file.write();
  }
  TuningFile file(at("a.json"), two_h200s());
  EXPECT_EQ(file.note(), "");
  EXPECT_TRUE(file.has(gather(256, false)));
  EXPECT_FALSE(file.has(gather(256, true)));
  EXPECT_FALSE(file.has(gather(257, false)));
  file.put(gather(256, true), plan_number(gather(256, true), 0), {30, 31, 12});
  file.put(gather(256, false), plan_number(gather(256, false), 1), {20.5, 0, 12});
  EXPECT_EQ(file.rows(), 2U);
  file.write();
  EXPECT_EQ(read_tuning(at("a.json").string())->rows[0].us, 20.5);
}

TEST_F(TuningFileTest, OfOtherGpusOrKernelsItBeginsAnew) {
  TuningFile(at("a.json"), two_h200s()).write();
  GpuFacts others = two_h200s();
  others.multiprocessors = 114;
  EXPECT_NE(TuningFile(at("a.json"), others).note().find("other GPUs"), std::string::npos);
  std::ofstream(at("b.json")) << R"({"schema": "tilelace.tuning/1", "kernels": "1", "rows": [],
      "device": {"name": "NVIDIA H200", "architecture": "sm_90a", "multiprocessors": 132}})";
  EXPECT_NE(TuningFile(at("b.json"), two_h200s()).note().find("kernels"), std::string::npos);
}

/// The file's table, as if the kernels of this plan's tile had been others.
std::string with_changed_kernels(const std::string& file, const Plan& plan) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string all = text.str();
  const std::string words = fmt::format("{}", fmt::streamed(plan));
  const std::string tile = fmt::format("\"{}\":\"", plan::tile_in_words(words));
  all.replace(all.find(tile) + tile.size(), 4, "xxxx");
  return all;
}

TEST_F(TuningFileTest, RowsOfChangedKernelsAreTimedAgain) {
  const Plan changed = plan_number(gather(256, false), 0);
  TuningFile file(at("a.json"), two_h200s());
  file.put(gather(256, false), changed, {21.5, 0, 12});
  file.write();
  const std::string text = with_changed_kernels(at("a.json").string(), changed);
  std::ofstream(at("a.json")) << text;
  TuningFile again(at("a.json"), two_h200s());
  EXPECT_NE(again.note().find("1 rows are timed again"), std::string::npos) << again.note();
  EXPECT_EQ(again.rows(), 0U);
  TuningFile other(at("b.json"), two_h200s());
  EXPECT_EQ(other.merge(at("a.json")), 0U);
  other.put(gather(256, false), changed, {21.5, 0, 12});
  other.write();
  EXPECT_EQ(read_tuning(at("b.json").string())->rows.size(), 1U);
}

TEST_F(TuningFileTest, WhatIsNoTableIsAnErrorAndStays) {
  std::ofstream(at("a.json")) << "notes of mine";
  EXPECT_THROW(TuningFile(at("a.json"), two_h200s()), Error);
  std::string left;
  std::getline(std::ifstream(at("a.json")), left);
  EXPECT_EQ(left, "notes of mine");
}

TEST_F(TuningFileTest, MergingTakesWhatIsNotThere) {
  TuningFile a(at("a.json"), two_h200s()), b(at("b.json"), two_h200s());
  a.put(gather(1, false), plan_number(gather(1, false), 0), {1, 0, 1});
  a.put(gather(2, false), plan_number(gather(2, false), 0), {2, 0, 1});
  b.put(gather(2, false), plan_number(gather(2, false), 1), {3, 0, 1});
  a.write();
  EXPECT_EQ(b.merge(at("a.json")), 1U);
  b.write();
  const auto table = read_tuning(at("b.json").string());
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_EQ(table->rows[0].us, 3);
  GpuFacts others = two_h200s();
  others.name = "NVIDIA H100";
  TuningFile c(at("c.json"), others);
  EXPECT_THROW(c.merge(at("a.json")), Error);

  TuneRequest alone;
  alone.out = at("both.json").string();
  alone.merge = {at("a.json").string(), at("b.json").string()};
  merge_tables(alone);
  EXPECT_EQ(TuningFile(alone.out, two_h200s()).rows(), 2U);
}

TEST_F(TuningFileTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(TuningFile(at("none/a.json"), two_h200s()).write(), Error);
}

TEST(ShippedTables, AreTables) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in_source_tree("tuning"))) {
    EXPECT_NO_THROW(read_tuning(entry.path().string())) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace tilelace::cli
