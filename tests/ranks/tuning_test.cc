// SPDX-License-Identifier: Apache-2.0
// Ranks agree on their table of measured plans, or all of them hear who has which.
#include "op/tuning.h"

#include <cstdlib>
#include <fstream>
#include <optional>

#include "comm_helpers.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::comm::test {
namespace {

/// A table without rows; another name of the device, another file.
std::shared_ptr<const plan::TuningTable> table(const std::string& file, const std::string& name) {
  return plan::tuning_of(file, R"({"schema": "tilelace.tuning/1", "kernels": ")" +
                                   plan::kernel_set() +
                                   R"(", "rows": [], "device": {"architecture": "sm_90a",
                             "multiprocessors": 132, "name": ")" +
                                   name + "\"}}");
}

struct Mine {
  std::shared_ptr<const plan::TuningTable> table;
  std::string refusal;
};

/// What each rank hears.
std::vector<Caught> agree(const std::vector<Mine>& ranks) {
  const int count = static_cast<int>(ranks.size());
  auto groups = make_thread_groups(count);
  std::vector<Caught> heard(ranks.size());
  run_threads(count, [&](int r) {
    const auto at = static_cast<std::size_t>(r);
    heard[at] = catch_error(
        [&] { op::agree_on_tuning(*groups[at], ranks[at].table.get(), ranks[at].refusal, 10); });
  });
  return heard;
}

TEST(Tuning, TheSameTableOrNoneIsAgreement) {
  const auto one = table("a.json", "x"), copy = table("b.json", "x");
  for (const auto& ranks : {std::vector<Mine>{{one, ""}, {copy, ""}, {one, ""}},
                            std::vector<Mine>{{}, {}, {}}, std::vector<Mine>{{one, ""}}})
    for (const Caught& c : agree(ranks)) EXPECT_EQ(c.text, "");
}

TEST(Tuning, WhoDiffersIsNamedOnEveryRank) {
  const auto one = table("a.json", "x"), other = table("b.json", "y");
  for (const Caught& c : agree({{one, ""}, {one, ""}, {other, ""}})) {
    EXPECT_EQ(c.kind, ErrorKind::usage);
    EXPECT_TRUE(c.says("a.json on rank 0 and b.json on rank 2")) << c.text;
  }
  for (const Caught& c : agree({{one, ""}, {}}))
    EXPECT_TRUE(c.says("a.json on rank 0 and no table on rank 1")) << c.text;
}

TEST(Tuning, WhatOneCouldNotReadIsAnErrorOnAll) {
  const std::string very_long(5000, 'x');
  for (const std::string& refusal : {std::string("b.json: row 3: us: got 0"), very_long})
    for (const Caught& c : agree({{table("a.json", "x"), ""}, {{}, refusal}})) {
      EXPECT_EQ(c.kind, ErrorKind::usage);
      EXPECT_TRUE(c.says("rank 1: " + refusal.substr(0, 24))) << c.text;
    }
}

/// The variable, while it lives.
class Named {
 public:
  explicit Named(const std::string& file) { setenv("TILELACE_TUNING", file.c_str(), 1); }
  ~Named() { unsetenv("TILELACE_TUNING"); }
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;
};

TEST(Tuning, TheEnvironmentNamesAFileForGpuRanksAlone) {
  const Named named("/nowhere/tuning.json");
  auto groups = make_thread_groups(1);
  CommunicatorOptions options;
  EXPECT_EQ(op::with_tuning(*groups[0], options).tuning, nullptr);
  options.device = Device::cuda;
  const Caught c = catch_error([&] { op::with_tuning(*groups[0], options); });
  EXPECT_EQ(c.kind, ErrorKind::usage);
  EXPECT_TRUE(c.says("/nowhere/tuning.json")) << c.text;
  options.tuning = table("given.json", "x");
  EXPECT_EQ(op::with_tuning(*groups[0], options).tuning->file, "given.json");
}

TEST(Tuning, CpuRanksTakeNoTable) {
  CommunicatorOptions options;
  options.tuning = table("a.json", "x");
  const Caught c = catch_error([&] { Communicator::threads(2, options); });
  EXPECT_EQ(c.kind, ErrorKind::usage);
  EXPECT_TRUE(c.says("tuning")) << c.text;
}

}  // namespace
}  // namespace tilelace::comm::test
