// SPDX-License-Identifier: Apache-2.0
// What every subcommand prints fits its columns: 100 where nothing says otherwise, else COLUMNS.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "cli_fixture.h"

namespace tilelace::cli {
namespace {

/// Tables of every kind that this machine can print, with long names and large sizes among them.
const char* const kCommands[] = {
    "run --model minilm-l6 --tp 4 --m 0,8,128 --iterations 1",
    "run --model minilm-l6 --tp 2 --m 8 --iterations 1 --layer all --op ag_gemm",
    "run --model minilm-l6 --tp 2 --m 8 --checked --op gemm_ar",
    "run --model hidden=64,intermediate=128,heads=4 --tp 2 --m 8 --iterations 1 --link 25,5",
    "bench gemm_rs --tp 2 --m 8,256 --n 1024 --k 1024 --processes",
    "bench ag_gemm --tp 2 --m 8 --n 64 --k 64 --plan transport=push,chunk=8 --plan transport=pull",
    "bench all_reduce,all_gather,reduce_scatter,all_to_all --tp 2 --size 1K,64K --iterations 2",
    "plan gemm_rs --tp 4 --m 2048 --n 4096 --k 4096 --link 25,5",
    "plan --model llama2-70b --tp 8 --m 1,4096 --backend cuda",
    "plan gemm_ar --tp 4 --m 4096 --n 8192 --k 8192 --backend cuda",
    "plan ag_moe,moe_rs,moe_ar --m 1,8192 --model qwen3-235b-a22b --backend cuda --tp 4",
    "plan --ops",
    "simulate --machine h200x4 --model llama2-70b --tp 4 --m 64,4096",
    "simulate gemm_ar --machine a100-pcie-x8 --model gpt3-175b --product down --tp 8 --m 512",
    "simulate ag_gemm --machine h800-nvlink-x8 --tp 8 --nodes 2 --m 2048 --n 49152 --k 12288",
    "simulate gemm_rs --machine h200x4 --model llama2-70b --product down --tp 4 --m 4096 --tried",
    "simulate moe_rs,moe_ar --machine h200x2 --model qwen3-235b-a22b --tp 2 --m 1,65536 "
    "--routing uniform,zipf,hot",
    "check --mutants",
    "check --tp 4",
    "check --configurations 100",
    "doctor",
    "launch --ranks 2 --tag -- true",
    "help",
    "help run",
    "help bench",
    "help plan",
    "help tune",
    "help simulate",
    "help check",
    "help launch",
    "help doctor",
};

std::string too_long(const std::string& text, std::size_t most) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);)
    if (line.size() > most) found += std::to_string(line.size()) + ": " + line + "\n";
  return found;
}

/// Lines between the table and the empty line, or the end, behind the legend's first words.
std::ptrdiff_t legend_lines(const std::string& text, const std::string& first) {
  const std::size_t at = text.find("\n" + first);
  if (at == std::string::npos) return 0;
  const std::size_t end = std::min(text.find("--wide.\n", at), text.size());
  return std::count(text.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                    text.begin() + static_cast<std::ptrdiff_t>(end), '\n') +
         1;
}

class CliWidth : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { unsetenv("COLUMNS"); }
  void TearDown() override { unsetenv("COLUMNS"); }
};

TEST_P(CliWidth, FitsAHundredColumns) {
  const Finished f = run_command(GetParam());
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out + f.err, std::string(GetParam()).find("launch") == 0 ? "-" : "");
  EXPECT_EQ(too_long(f.out + f.err, 100), "");
}

INSTANTIATE_TEST_SUITE_P(All, CliWidth, testing::ValuesIn(kCommands),
                         [](const auto& test) { return "n" + std::to_string(test.index); });

struct Kind {
  const char* command;
  const char* legend;  ///< how it begins
  const char* spare;   ///< a title that is left out at 100 columns
};
const Kind kKinds[] = {
    {"run --model minilm-l6 --tp 2 --m 128 --iterations 1", "Median times in us", "ECT"},
    {"bench gemm_rs --tp 2 --m 64 --n 256 --k 256 --iterations 1", "Median times in us", "exact"},
    {"simulate --machine h200x4 --model llama2-70b --tp 4 --m 256", "Predicted us", "E med"},
};

TEST(CliColumns, AreLookedAt) {
  for (const Kind& kind : kKinds) {
    setenv("COLUMNS", "80", 1);
    const Finished narrow = run_command(kind.command);
    EXPECT_EQ(too_long(narrow.out, 80), "") << kind.command;
    setenv("COLUMNS", "200", 1);
    const Finished roomy = run_command(kind.command);
    EXPECT_NE(roomy.out.find(kind.spare), std::string::npos) << roomy.out;
    unsetenv("COLUMNS");
    const Finished usual = run_command(kind.command);
    EXPECT_EQ(usual.out.find(std::string(" ") + kind.spare + " "), std::string::npos) << usual.out;
    EXPECT_GT(legend_lines(usual.out, kind.legend), 0) << usual.out;
    EXPECT_LE(legend_lines(usual.out, kind.legend), 3) << usual.out;
    const Finished all = run_command(std::string(kind.command) + " --wide");
    EXPECT_NE(all.out.find(kind.spare), std::string::npos) << all.out;
  }
}

TEST(CliColumns, WideHasWholeLines) {
  const std::string line = "plan ag_gemm --tp 4 --m 4096 --n 28672 --k 8192 --backend cuda";
  const Finished f = run_command(line + " --wide");
  EXPECT_NE(too_long(f.out, 100), "") << f.out;
  const Finished usual = run_command(line);
  EXPECT_NE(usual.out, f.out);
}

}  // namespace
}  // namespace tilelace::cli
