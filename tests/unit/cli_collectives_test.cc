// SPDX-License-Identifier: Apache-2.0
// What `bench` makes of collectives' sizes, options, times and results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "collectives/figures.h"
#include "collectives/values.h"
#include "core/half.h"
#include "plan/collectives/collective.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

constexpr DType kTwoBytes = DType::bf16;

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

CollectiveTimes sample_times() {
  CollectiveTimes t;
  t.op = Collective::all_reduce;
  t.ranks = 4;
  t.bytes = std::int64_t{64} << 20;
  t.plan = plan::describe({.shots = 2, .workers = 1056, .chunk = 2048, .pieces = 17});
  t.us = {251, 250, 252};
  t.baselines = {{"nccl", {500}}, {"nccl_window", {300, 250}}, {"nccl_registered", {}}};
  return t;
}

TEST(CliCollectives, SizesHaveUnitsAndRanges) {
  EXPECT_EQ(parse_byte_sizes("--size", "7,8K,1M,2G"),
            (std::vector<std::int64_t>{7, 8192, 1 << 20, std::int64_t{2} << 30}));
  EXPECT_EQ(parse_byte_sizes("--size", "8K:64K:2"),
            (std::vector<std::int64_t>{8192, 16384, 32768, 65536}));
  EXPECT_EQ(parse_byte_sizes("--size", "1K:16K:4").size(), 3U);
  EXPECT_EQ(parse_byte_sizes("--size", "1000:1500:2"), (std::vector<std::int64_t>{1000, 1500}));
  for (const char* bad : {"", "8Q", "K", "8k", "-1", "0", "8K:1K:2", "8K:16K", "1:2:3:4", "1:2:1",
                          "1,,2", "2000G", "99999999999999999999"})
    EXPECT_NE(refusal_of([bad] { parse_byte_sizes("--size", bad); }), "none") << bad;
}

TEST(CliCollectives, SizesAreShownAsTheyAreWritten) {
  EXPECT_EQ(show_size(8192), "8K");
  EXPECT_EQ(show_size(std::int64_t{64} << 20), "64M");
  EXPECT_EQ(show_size(std::int64_t{3} << 30), "3G");
  EXPECT_EQ(show_size(1000), "1000");
}

TEST(CliCollectives, ASizeIsWhatTheWholeHas) {
  const CollectiveShape reduce = shape_of(Collective::all_reduce, 8192, kTwoBytes, 4, 1);
  EXPECT_EQ(reduce.count, 4096);
  EXPECT_EQ(reduce.in, 4096);
  EXPECT_EQ(reduce.out, 4096);
  const CollectiveShape gather = shape_of(Collective::all_gather, 8192, kTwoBytes, 4, 1);
  EXPECT_EQ(gather.count, 1024);
  EXPECT_EQ(gather.in, 1024);
  EXPECT_EQ(gather.out, 4096);
  EXPECT_EQ(gather.in_at, 1024);
  const CollectiveShape scatter = shape_of(Collective::reduce_scatter, 8192, kTwoBytes, 4, 3);
  EXPECT_EQ(scatter.in, 4096);
  EXPECT_EQ(scatter.out, 1024);
  EXPECT_EQ(scatter.out_at, 3072);
  EXPECT_EQ(shape_of(Collective::all_to_all, 8192, kTwoBytes, 4, 1).count, 1024);
}

TEST(CliCollectives, PartsAreCutToSixteenBytes) {
  const CollectiveShape s = shape_of(Collective::all_gather, 8192, kTwoBytes, 3, 0);
  EXPECT_EQ(s.count * 2, 2720);
  EXPECT_EQ(s.bytes, 8160);
  EXPECT_EQ(shape_of(Collective::all_gather, 20, kTwoBytes, 3, 0).count, 3);
  EXPECT_NE(refusal_of([] { shape_of(Collective::all_to_all, 5, kTwoBytes, 3, 0); }), "none");
}

TEST(CliCollectives, OverridesAreThoseOfTheLibrary) {
  const CollectiveOptions o = parse_collective_options("lines=0,shots=2,workers=8,chunk=4K");
  EXPECT_EQ(o, (CollectiveOptions{false, 2, 8, 4096}));
  EXPECT_EQ(parse_collective_options(""), CollectiveOptions{});
  for (const char* bad : {"lines=2", "shots=3", "workers=0", "chunk", "blocks=1", "chunk=x"})
    EXPECT_NE(refusal_of([bad] { parse_collective_options(bad); }), "none") << bad;
}

TEST(CliCollectives, ShotsStayWithTheOpThatTakesThem) {
  CollectiveWork work;
  work.options.shots = 1;
  work.ops = {Collective::all_reduce, Collective::all_gather};
  EXPECT_EQ(options_for(work, Collective::all_reduce).shots, 1);
  EXPECT_FALSE(options_for(work, Collective::all_gather).shots);
  work.ops = {Collective::all_gather};  // the library refuses it
  EXPECT_EQ(options_for(work, Collective::all_gather).shots, 1);
}

TEST(CliCollectives, RatesAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(algorithm_rate(1'000'000, 10), 100);
  EXPECT_DOUBLE_EQ(bus_rate(Collective::all_reduce, 4, 1'000'000, 10), 150);
  EXPECT_DOUBLE_EQ(bus_rate(Collective::all_gather, 4, 1'000'000, 10), 75);
  EXPECT_DOUBLE_EQ(bus_rate(Collective::reduce_scatter, 8, 1'000'000, 10), 87.5);
  EXPECT_DOUBLE_EQ(bus_rate(Collective::all_to_all, 2, 1'000'000, 10), 50);
}

TEST(CliCollectives, ThePlanIsShortInTheTable) {
  EXPECT_EQ(short_plan(sample_times().plan), "chunks, 2 shots, 1056 x 32768, 17 pieces");
  EXPECT_EQ(short_plan(plan::describe({.lines = true, .workers = 32, .chunk = 16})),
            "lines, 32 x 256");
  EXPECT_EQ(short_plan(plan::describe({.direct = true, .workers = 8, .chunk = 64})),
            "chunks, direct, 8 x 1024");
}

TEST(CliCollectives, TheTableFitsAHundredColumns) {
  const std::vector<std::string> baselines{"nccl", "nccl_registered", "nccl_window"};
  const Table table = collective_table(baselines, 100);
  EXPECT_EQ(table.header(), "    size     us  algbw  busbw   nccl regist window ratio plan");
  const std::string line = table.line(collective_cells(sample_times(), baselines));
  EXPECT_EQ(line,
            "     64M  251.0  267.4  401.0  500.0      -  275.0  1.10 "
            "chunks, 2 shots, 1056 x 32768, 17 pieces");
  EXPECT_LE(line.size(), 100U);
  const std::string legend = table.legend();
  EXPECT_LE(std::ranges::count(legend, '\n'), 3) << legend;
}

TEST(CliCollectives, MeansAreGeometric) {
  CollectiveTimes slow = sample_times(), fast = sample_times();
  slow.us = {1000}, slow.baselines = {{"nccl", {500}}};
  fast.us = {100}, fast.baselines = {{"nccl", {800}}};
  EXPECT_EQ(collective_means({slow, fast}, {"nccl", "nccl_window"}),
            "Geometric mean of baseline / ours: nccl 2.00, nccl_window -, the fastest 2.00");
  EXPECT_EQ(collective_means({slow}, {}), "");
}

TEST(CliCollectives, TimesTravelAsText) {
  CollectiveTimes t = sample_times();
  t.complaint = "rank 1: \"x\"";
  const CollectiveTimes back = collective_times_of(to_text(t));
  EXPECT_EQ(to_text(back), to_text(t));
  EXPECT_EQ(back.us, t.us);
  EXPECT_EQ(collective_cells(back, {}).back(), "WRONG");
}

TEST(CliCollectives, ARecordHasItsKeysInOrder) {
  CollectiveWork work;
  work.ranks = 4;
  const auto j = nlohmann::ordered_json::parse(collective_record(work, sample_times(), "2.28.9"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : j.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "schema", "op",       "ranks",     "bytes",     "dtype",    "backend",
                      "mode",   "in_place", "symmetric", "us",        "samples",  "spread",
                      "algbw",  "busbw",    "plan",      "baselines", "verified", "device",
                      "driver", "nccl",     "commit",    "time"}));
  EXPECT_EQ(j["schema"], "tilelace.collectives/1");
  EXPECT_EQ(j["us"], 251);
  EXPECT_EQ(j["samples"], 3);
  EXPECT_EQ(j["baselines"]["nccl_window"], 275);
  EXPECT_TRUE(j["baselines"]["nccl_registered"].is_null());
  EXPECT_EQ(j["verified"], true);
}

/// A bit of any element is noticed, in sums and in what only moves.
TEST(CliCollectives, ResultsAreComparedBitForBit) {
  const int ranks = 3;
  const CollectiveValues values(kTwoBytes, ranks);
  for (const CollectiveRow& row : kCollectives) {
    const CollectiveShape s = shape_of(row.collective, 600'000, kTwoBytes, ranks, 1);
    std::vector<std::vector<std::byte>> in;
    for (int r = 0; r < ranks; ++r) in.push_back(values.input(s, r));
    std::vector<std::byte> out(static_cast<std::size_t>(s.out) * 2);
    for (std::int64_t i = 0; i < s.out; ++i) {
      const std::int64_t first =
          row.collective == Collective::all_reduce || row.collective == Collective::all_gather
              ? 0
              : s.count;  // rank 1's part
      const auto from = static_cast<std::size_t>(i / s.count);
      float sum = load_element(in[row.sums ? 0 : from].data(), kTwoBytes, first + i % s.count);
      for (std::size_t r = 1; row.sums && r < in.size(); ++r)
        sum += load_element(in[r].data(), kTwoBytes, first + i);
      store_element(out.data(), kTwoBytes, i, sum);
    }
    EXPECT_EQ(values.wrong(s, 1, out), "") << row.name;
    EXPECT_EQ(values.far_off(s, 1, out), "") << row.name;
    out[out.size() - 2] ^= std::byte{1};
    EXPECT_NE(values.wrong(s, 1, out).find("element " + std::to_string(s.out - 1)),
              std::string::npos)
        << row.name;
    EXPECT_EQ(values.far_off(s, 1, out).empty(), row.sums) << row.name;
    out[out.size() - 1] = std::byte{0x7F}, out[out.size() - 2] = std::byte{0xFF};  // NaN
    EXPECT_NE(values.far_off(s, 1, out), "") << row.name;
  }
}

}  // namespace
}  // namespace tilelace::cli
