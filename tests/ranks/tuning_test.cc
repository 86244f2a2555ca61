// SPDX-License-Identifier: Apache-2.0
// Ranks agree on their table of measured plans, or all of them hear who has which.
#include "op/tuning.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "comm_helpers.h"
#include "op/kept_tuning.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/sm90_grouped.h"
#include "plan/tuning/find_tuning.h"
#include "plan/tuning/tuning_draft.h"
#include "plan/tuning/tuning_table.h"
#include "tilelace/tune.h"
#include "unit/folder.h"

namespace tilelace::comm::test {
namespace {

/// A table without rows; another name of the device, another file.
std::shared_ptr<const plan::TuningTable> table(const std::string& file, const std::string& name) {
  return plan::tuning_of(file, R"({"schema": "tilelace.tuning/1", "kernels": )" +
                                   nlohmann::json(plan::kernel_set(0)).dump() +
                                   R"(, "rows": [], "device": {"architecture": "sm_90a",
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
    EXPECT_TRUE(c.says("got a.json on rank 0, b.json on rank 2")) << c.text;
  }
  for (const Caught& c : agree({{one, ""}, {}}))
    EXPECT_TRUE(c.says("got a.json on rank 0, no table on rank 1")) << c.text;
}

TEST(Tuning, TablesThatDifferInTilesOfExpertsDiffer) {
  const auto with_tiles = [](const std::string& file, const plan::GroupedShape& shape) {
    plan::TuningDraft draft(file, plan::device_of(cuda_machine(), "x"));
    draft.put({64, 128, 64, 8, true, DType::bf16}, shape, {5, 0, 4, "c"});
    return plan::tuning_of(file, draft.text());
  };
  const auto one = with_tiles("a.json", plan::kSm90Few);
  for (const Caught& c : agree({{one, ""}, {one, ""}})) EXPECT_EQ(c.text, "");
  for (const Caught& c : agree({{one, ""}, {with_tiles("b.json", plan::kSm90Many), ""}}))
    EXPECT_TRUE(c.says("got a.json on rank 0, b.json on rank 1")) << c.text;
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

TEST(Tuning, OffEndsTheSearch) {
  const Named named("off");
  auto groups = make_thread_groups(1);
  CommunicatorOptions options;
  options.device = Device::cuda;
  const auto found = op::with_tuning(*groups[0], options);
  EXPECT_EQ(found.tuning, nullptr);
  EXPECT_EQ(found.tuning_file, "off");
  options.tuning_file = "/nowhere/mine.json";  // goes before the environment's
  EXPECT_TRUE(
      catch_error([&] { op::with_tuning(*groups[0], options); }).says("/nowhere/mine.json"));
}

TEST(Tuning, WishesThatMakeNoSenseAreUsageErrors) {
  const auto wrong = [](const std::function<void(CommunicatorOptions&)>& wish) {
    CommunicatorOptions o;
    wish(o);
    const Caught c = catch_error([&] { Communicator::threads(2, o); });
    return c.text.empty() || c.kind != ErrorKind::usage ? "no usage error" : c.text;
  };
  EXPECT_NE(wrong([](auto& o) { o.autotune = -1; }).find("autotune: got -1 s"), std::string::npos);
  EXPECT_NE(wrong([](auto& o) { o.autotune = 1e9; }).find("0 to 3600"), std::string::npos);
  EXPECT_NE(wrong([](auto& o) { o.autotune = NAN; }).find("autotune"), std::string::npos);
  EXPECT_NE(wrong([](auto& o) { o.autotune = 1, o.deterministic = true; }).find("deterministic"),
            std::string::npos);
  EXPECT_NE(wrong([](auto& o) { o.tuning_file = "a.json"; }).find("for GPU ranks"),
            std::string::npos);
}

TEST(Tuning, CpuRanksAcceptAutotuneAndHaveNothingToTune) {
  CommunicatorOptions o;
  o.autotune = 1;
  auto members = Communicator::threads(2, o);
  const Caught c = catch_error([&] { tune(members[0], {}); });
  EXPECT_EQ(c.kind, ErrorKind::usage);
  EXPECT_TRUE(c.says("tune: CPU ranks have nothing to tune")) << c.text;
}

class KeptTuningTest : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  /// What each rank has, whose cache is this folder.
  std::vector<op::KeptTuning> kept(const std::string& cache) {
    std::vector<op::KeptTuning> all(kRanks);
    CommunicatorOptions o;
    o.device = Device::cuda;
    o.tuning_file = "off";
    o.cache = cache;
    run_threads(kRanks, [&](int r) {
      const auto at = static_cast<std::size_t>(r);
      all[at] = op::KeptTuning(*groups_[at], o, cuda_machine(), "a GPU", true);
    });
    return all;
  }
  static Problem problem(std::int64_t m) {
    Problem p;
    p.op = Op::gemm_rs;
    p.ranks = kRanks;
    p.m = m;
    p.n = {8192};
    p.k = 14336;
    return p;
  }
  static void put(op::KeptTuning& kept, std::int64_t m) {
    kept.put(problem(m), plan::cuda_ways(problem(m), cuda_machine()).at(5).plan, {70, 80, 9, "x"});
  }
  [[nodiscard]] std::filesystem::path file() const {
    return folder_ / plan::cache_name(cuda_machine(), kRanks);
  }

  tilelace::test::Folder folder_;
  std::vector<std::unique_ptr<Group>> groups_ = make_thread_groups(kRanks);
};

TEST_F(KeptTuningTest, WhatIsTunedIsTakenAndKeptForTheNext) {
  auto now = kept((folder_ / "new").string());
  EXPECT_EQ(now[0].table(), nullptr);
  for (auto& k : now) put(k, 1024);
  Machine machine = cuda_machine();
  machine.tuning = now[1].table();
  EXPECT_NE(make_plan(problem(1024), machine).reason.find("70.0 us"), std::string::npos);
  const auto next = kept((folder_ / "new").string());
  for (const auto& k : next) {
    ASSERT_NE(k.table(), nullptr);
    EXPECT_EQ(k.table()->rows.size(), 1U);
    EXPECT_EQ(k.table()->digest_of_all(), next[0].table()->digest_of_all());
  }
}

TEST_F(KeptTuningTest, RowsOfOthersInTheFileStay) {
  auto mine = kept((folder_ / "").string()), theirs = kept((folder_ / "").string());
  put(mine[0], 1024);
  put(theirs[0], 4096);
  put(mine[1], 64);  // rank 1 writes nothing
  EXPECT_EQ(read_tuning(file().string())->rows.size(), 2U);
  EXPECT_EQ(folder_.files(), 1U) << "nothing half written is left";
}

TEST_F(KeptTuningTest, ABrokenFileIsLeftOutAndWrittenAnew) {
  for (const std::string& bytes :
       {std::string("{\"schema\""), std::string(), std::string(500, '[')}) {
    std::ofstream(file()) << bytes;
    auto all = kept((folder_ / "").string());
    EXPECT_EQ(all[0].table(), nullptr);
    put(all[0], 1024);
    EXPECT_EQ(read_tuning(file().string())->rows.size(), 1U);
  }
}

TEST_F(KeptTuningTest, AFolderThatCannotBeIsNoError) {
  auto all = kept("/proc/nothing/here");
  put(all[0], 1024);
  EXPECT_EQ(all[0].table()->rows.size(), 1U);
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
