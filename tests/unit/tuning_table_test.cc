// SPDX-License-Identifier: Apache-2.0
// Tables of measured plans: what is read from them, what of them is refused, and which plan a
// problem gets.
#include "plan/tuning/tuning_table.h"

#include <fmt/ostream.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <climits>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "down_projection.h"
#include "folder.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/tuning/tuned_plan.h"
#include "plan/tuning/tuning_draft.h"
#include "plan/words/agreement.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

using nlohmann::json;

constexpr const char* kFile = "h200x2.json";

/// The n-th prediction of a kind, so that a row says something else than the planner.
CudaWay prediction(const Problem& p, std::size_t number) {
  return cuda_ways(p, cuda_machine(), {"store by shard"}).at(number);
}

json row_of_plan(const Problem& p, const Plan& plan, double us) {
  return {{"op", name_of(p.op)},
          {"ranks", p.ranks},
          {"dtype", name_of(p.dtype)},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"plan", fmt::format("{}", fmt::streamed(plan))},
          {"us", us}};
}

/// Two rows of gemm_rs, at m 1024 and 4096.
json table() {
  json rows = json::array();
  rows.push_back(row_of_plan(down(1024), prediction(down(1024), 7).plan, 377.5));
  rows.push_back(row_of_plan(down(4096), prediction(down(4096), 0).plan, 1446.0));
  return {
      {"schema", "tilelace.tuning/1"},
      {"kernels", kernel_set(0)},
      {"device", {{"name", "NVIDIA H200"}, {"architecture", "sm_90a"}, {"multiprocessors", 132}}},
      {"rows", rows}};
}

std::shared_ptr<const TuningTable> read(const json& all) { return tuning_of(kFile, all.dump()); }

/// The text of the error, which names the file.
std::string error_of(const std::string& bytes) {
  try {
    tuning_of(kFile, bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(e.what()).find(kFile), 0U) << e.what();
    return e.what();
  }
  return "";
}

Machine tuned_machine(const json& all) {
  Machine machine = cuda_machine();
  machine.tuning = read(all);
  return machine;
}

TEST(TuningTable, ReadsWhatItSays) {
  const auto read_back = read(table());
  EXPECT_TRUE(read_back->notes.empty());
  ASSERT_EQ(read_back->rows.size(), 2U);
  EXPECT_EQ(read_back->device.name, "NVIDIA H200");
  EXPECT_EQ(read_back->rows[0].us, 377.5);
  EXPECT_EQ(choice_bytes(read_back->rows[0].plan), choice_bytes(prediction(down(1024), 7).plan));
  EXPECT_EQ(read_back->rows[0].kind, prediction(down(1024), 7).kind);
}

/// What is done to the table, and what the error says then.
struct Damage {
  const char* what;
  std::function<void(json&)> done;
  const char* says;
};

std::vector<Damage> damages() {
  const auto row = [](json& all) -> json& { return all["rows"][0]; };
  return {
      {"no schema", [](json& a) { a.erase("schema"); }, "schema is missing"},
      {"another schema", [](json& a) { a["schema"] = "tilelace.tuning/2"; }, "expected \"tilelace"},
      {"schema a number", [](json& a) { a["schema"] = 1; }, "schema: got number"},
      {"schema null", [](json& a) { a["schema"] = nullptr; }, "schema: got null"},
      {"no kernels", [](json& a) { a.erase("kernels"); }, "kernels is missing"},
      {"kernels a list", [](json& a) { a["kernels"] = json::array(); }, "kernels: got array"},
      {"kernels a number", [](json& a) { a["kernels"] = 7; }, "kernels: got number"},
      {"a tile's kernels a number", [](json& a) { a["kernels"]["c128"] = 7; }, "c128: got number"},
      {"no tile's kernels", [](json& a) { a["kernels"] = json::object(); }, "row 0: plan: tile "},
      {"no device", [](json& a) { a.erase("device"); }, "device is missing"},
      {"device a text", [](json& a) { a["device"] = "H200"; }, "expected an object"},
      {"device without name", [](json& a) { a["device"].erase("name"); }, "name is missing"},
      {"architecture a number", [](json& a) { a["device"]["architecture"] = 90; }, "got number"},
      {"no multiprocessors", [](json& a) { a["device"].erase("multiprocessors"); }, " is missing"},
      {"multiprocessors 0", [](json& a) { a["device"]["multiprocessors"] = 0; }, "got 0"},
      {"multiprocessors -1", [](json& a) { a["device"]["multiprocessors"] = -1; }, "got -1"},
      {"memory a text", [](json& a) { a["device"]["memory_gbps"] = "fast"; }, "memory_gbps: got"},
      {"memory 0", [](json& a) { a["device"]["memory_gbps"] = 0; }, "memory_gbps: got 0"},
      {"5000 multiprocessors", [](json& a) { a["device"]["multiprocessors"] = 5000; }, "at most"},
      {"a name without end", [](json& a) { a["device"]["name"] = std::string(5000, 'x'); }, "4096"},
      {"no rows", [](json& a) { a.erase("rows"); }, "rows is missing"},
      {"rows an object", [](json& a) { a["rows"] = json::object(); }, "rows: got object"},
      {"a row a number", [](json& a) { a["rows"][1] = 4; }, "row 1: got number"},
      {"a row null", [](json& a) { a["rows"][1] = nullptr; }, "row 1: got null"},
      {"a row twice", [](json& a) { a["rows"][1] = a["rows"][0]; }, "got a second row"},
      {"no op", [=](json& a) { row(a).erase("op"); }, "row 0: op is missing"},
      {"no dtype", [=](json& a) { row(a).erase("dtype"); }, "row 0: dtype is missing"},
      {"no ranks", [=](json& a) { row(a).erase("ranks"); }, "row 0: ranks is missing"},
      {"ranks 0", [=](json& a) { row(a)["ranks"] = 0; }, "ranks: got 0"},
      {"ranks 65", [=](json& a) { row(a)["ranks"] = 65; }, "ranks: got 65"},
      {"no m", [=](json& a) { row(a).erase("m"); }, "m is missing"},
      {"m 0", [=](json& a) { row(a)["m"] = 0; }, "m: got 0"},
      {"m a fraction", [=](json& a) { row(a)["m"] = 16.5; }, "m: got 16.5"},
      {"m beyond 64 bits", [=](json& a) { row(a)["m"] = UINT64_MAX; }, "m: got 1844"},
      {"m true", [=](json& a) { row(a)["m"] = true; }, "m: got true"},
      {"n a number", [=](json& a) { row(a)["n"] = 8192; }, "n: got number"},
      {"n empty", [=](json& a) { row(a)["n"] = json::array(); }, "n: got array"},
      {"n of two weights",
       [=](json& a) {
         row(a)["n"] = {8192, 8192};
       },
       "row 0: "},
      {"n of a million weights", [=](json& a) { row(a)["n"] = std::vector<int>(1000000, 8); },
       "64"},
      {"n negative", [=](json& a) { row(a)["n"] = {-8}; }, "n: got -8"},
      {"no k", [=](json& a) { row(a).erase("k"); }, "k is missing"},
      {"k a text", [=](json& a) { row(a)["k"] = "14336"; }, "k: got \"14336\""},
      {"swiglu of one weight", [=](json& a) { row(a)["swiglu"] = true; }, "row 0: "},
      {"swiglu a number", [=](json& a) { row(a)["swiglu"] = 1; }, "swiglu: got number"},
      {"no us", [=](json& a) { row(a).erase("us"); }, "us is missing"},
      {"us 0", [=](json& a) { row(a)["us"] = 0; }, "us: got 0"},
      {"us negative", [=](json& a) { row(a)["us"] = -3.5; }, "us: got -3.5"},
      {"no plan", [=](json& a) { row(a).erase("plan"); }, "plan is missing"},
      {"a plan of no words", [=](json& a) { row(a)["plan"] = ""; }, "row 0: "},
      {"a plan of nonsense", [=](json& a) { row(a)["plan"] = "as fast as can be"; }, "row 0: "},
      {"a plan without tile", [=](json& a) { row(a)["plan"] = "gemm_rs fused mesh store"; },
       "tile"},
      {"a plan of another op", [=](json& a) { row(a)["plan"] = "ag_gemm fused mesh push"; },
       "row 0"},
      {"a tile that is none",
       [=](json& a) { row(a)["plan"] = "gemm_rs fused mesh store; x999 workers 1"; }, "x999"},
  };
}

TEST(TuningTable, EveryDamageIsAnErrorThatNamesIt) {
  const auto all = damages();
  EXPECT_GE(all.size(), 40U);
  for (const Damage& damage : all) {
    json damaged = table();
    damage.done(damaged);
    const std::string error = error_of(damaged.dump());
    EXPECT_NE(error.find(damage.says), std::string::npos) << damage.what << ": " << error;
  }
}

TEST(TuningTable, WhatIsNoJsonIsRefused) {
  const std::string whole = table().dump();
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string(2000, '['), std::string("\0\xff\x80", 3),
        "[" + whole + "]", whole + whole, whole.substr(0, whole.size() / 2)})
    EXPECT_NE(error_of(bytes), "");
  for (std::size_t end = 1; end < whole.size(); end += 41)
    EXPECT_NE(error_of(whole.substr(0, end)), "");
  // Printed, this value would overflow the stack.
  std::string deep = whole;
  const std::size_t at = deep.find("377.5");
  ASSERT_NE(at, std::string::npos);
  deep.replace(at, 5, std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_NE(error_of(deep).find("nested deeper than 16 levels"), std::string::npos);
}

TEST(TuningTable, FilesThatCannotBeReadAreErrors) {
  EXPECT_THROW(read_tuning("/nowhere/table.json"), Error);
  const test::Folder folder;
  EXPECT_THROW(read_tuning((folder / "").string()), Error);
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(read_tuning(pipe), Error);  // and does not wait for who writes
  const std::string file = (folder / "tuning.json").string();
  std::ofstream(file) << table().dump();
  EXPECT_EQ(read_tuning(file)->rows.size(), 2U);
}

TEST(TuningTable, OfAnEarlierReleaseItIsLeftOutWithANote) {
  json other = table();
  other["kernels"] = "0123";
  other["rows"][0]["plan"] = "words of another time";
  const auto left = read(other);
  EXPECT_TRUE(left->rows.empty());
  ASSERT_EQ(left->notes.size(), 1U);
  EXPECT_NE(left->notes[0].find("0123"), std::string::npos);
}

/// The tile that a row's plan names.
std::string tile_of_row(const json& row) {
  const std::string plan = row["plan"];
  const auto at = plan.find("; ") + 2;
  return plan.substr(at, plan.find(' ', at) - at);
}

TEST(TuningTable, ATileThatChangedTakesItsRowsAlone) {
  json other = table();
  const std::string first = tile_of_row(other["rows"][0]);
  for (std::size_t i = 0; tile_of_row(other["rows"][1]) == first; ++i)
    other["rows"][1] = row_of_plan(down(4096), prediction(down(4096), i).plan, 1446.0);
  other["kernels"][first] = "0123";
  const auto left = read(other);
  ASSERT_EQ(left->rows.size(), 1U);
  EXPECT_EQ(left->rows[0].problem.m, 4096);
  ASSERT_EQ(left->notes.size(), 1U);
  EXPECT_NE(left->notes[0].find("1 rows left out"), std::string::npos) << left->notes[0];
  EXPECT_NE(left->notes[0].find(first), std::string::npos);
}

TEST(TuningTable, TilesThatComeAndGoLeaveOtherRowsAlone) {
  json other = table();
  other["kernels"]["x999"] = "0123";  // this build has none of that name
  for (const auto& [tile, digest] : kernel_set(0))
    if (tile != tile_of_row(other["rows"][0]) && tile != tile_of_row(other["rows"][1]))
      other["kernels"].erase(tile);
  const auto all = read(other);
  EXPECT_EQ(all->rows.size(), 2U);
  EXPECT_TRUE(all->notes.empty());
  other["rows"][0]["plan"] = "gemm_rs in words of a later time; x999 workers 1";
  EXPECT_EQ(read(other)->rows.size(), 1U);
  EXPECT_EQ(read(other)->notes.size(), 1U);
}

TEST(TuningTable, OfAnUnknownArchitectureOrOpItSaysSo) {
  json other = table();
  other["device"]["architecture"] = "sm_120";
  EXPECT_EQ(read(other)->notes.size(), 1U);
  json op = table();
  op["rows"][0]["op"] = "attention";
  EXPECT_EQ(read(op)->notes.size(), 1U);
  EXPECT_EQ(read(op)->rows.size(), 1U);
}

TEST(TuningDraftTest, RowsOfUnknownOpsStayWhateverTheyLack) {
  json theirs = table();
  theirs["rows"].push_back({{"op", "attention"}, {"dtype", "bf16"}, {"heads", 8}});
  theirs["rows"].push_back({{"op", "attention"}, {"dtype", "bf16"}, {"heads", 16}});
  const TunedDevice device = device_of(cuda_machine(), "NVIDIA H200");
  TuningDraft draft("all.json", device, theirs.dump());
  EXPECT_EQ(draft.rows(), 4U);
  EXPECT_EQ(draft.merge(kFile, theirs.dump()), 0U);
  draft.put(down(1024), prediction(down(1024), 7).plan, {300, 310, 4, "c"});
  EXPECT_EQ(json::parse(draft.text())["rows"].size(), 4U);
  TuningDraft empty("all.json", device);
  EXPECT_EQ(empty.merge(kFile, theirs.dump()), 4U);
}

TEST(TunedPlan, TheOwnRowIsTaken) {
  const Machine machine = tuned_machine(table());
  const Plan plan = make_plan(down(1024), machine);
  EXPECT_EQ(choice_bytes(plan), choice_bytes(prediction(down(1024), 7).plan));
  EXPECT_NE(choice_bytes(plan), choice_bytes(make_plan(down(1024), cuda_machine())));
  EXPECT_NE(plan.reason.find("377.5 us at m 1024 n 8192 k 14336 in h200x2.json"), std::string::npos)
      << plan.reason;
}

/// When shards join the walk is predicted; what was measured stays what it was.
TEST(TunedPlan, ShardsJoinWhereTheOwnRowSays) {
  Problem p = down(4096);
  p.op = Op::ag_gemm;
  for (const std::vector<int>& joins : {std::vector{17}, std::vector{0}, std::vector{INT_MAX}}) {
    const auto all = cuda_ways(p, cuda_machine(), {"push by shard"});
    const auto joined = std::ranges::find_if(
        all, [](const CudaWay& way) { return !way_if<AgGemmWay>(way.plan)->joins.empty(); });
    ASSERT_NE(joined, all.end());
    auto way = *way_if<AgGemmWay>(joined->plan);
    ASSERT_NE(way.joins, joins);
    way.joins = joins;
    const Plan measured = plan_of(p, way);
    json one = table();
    one["rows"] = json::array({row_of_plan(p, measured, 1.0)});
    const Plan taken = make_plan(p, tuned_machine(one));
    EXPECT_EQ(choice_bytes(taken), choice_bytes(measured));
    EXPECT_EQ(taken.reason.find("tuned: the fastest measured"), 0U) << taken.reason;
    way.joins = {17, 18};
    one["rows"] = json::array({row_of_plan(p, plan_of(p, way), 1.0)});
    EXPECT_EQ(make_plan(p, tuned_machine(one)).reason.find("tuned: kind and tile"), 0U);
  }
}

TEST(TunedPlan, NearARowItsKindAndTileAreTaken) {
  const Machine machine = tuned_machine(table());
  const CudaWay measured = prediction(down(1024), 7);
  const Plan plan = make_plan(down(1100), machine);
  EXPECT_EQ(kind_of(plan), measured.kind);
  EXPECT_EQ(plan.tile_m, measured.plan.tile_m);
  EXPECT_EQ(plan.tile_n, measured.plan.tile_n);
  EXPECT_NE(plan.reason.find("nearest row (distance 0.10)"), std::string::npos) << plan.reason;
}

TEST(TunedPlan, EveryPlanIsOneOfThePlanners) {
  const Machine machine = tuned_machine(table());
  for (const std::int64_t m : {512, 900, 1000, 1024, 1200, 3500, 4000, 4096, 4800, 8192}) {
    const std::string chosen = choice_bytes(make_plan(down(m), machine));
    bool found = false;
    for (const CudaWay& way : cuda_ways(down(m), cuda_machine()))
      found = found || choice_bytes(way.plan) == chosen;
    EXPECT_TRUE(found) << m;
  }
}

TEST(TunedPlan, FarFromEveryRowPredictionsDecide) {
  const Machine machine = tuned_machine(table());
  for (const std::int64_t m : {1, 64, 500, 1500, 8200}) {
    const Plan plan = make_plan(down(m), machine), plain = make_plan(down(m), cuda_machine());
    EXPECT_EQ(choice_bytes(plan), choice_bytes(plain)) << m;
    EXPECT_EQ(plan.reason, plain.reason + "; h200x2.json has no row near it");
  }
}

/// The tile that its time is predicted by is another one at most other sizes.
TEST(TunedPlan, CublasIsTakenAtNearSizesWhereItIsThere) {
  json all = table();
  const CudaWay measured = cuda_ways(down(512), cuda_machine(), {"unfused pull with cublas"}).at(1);
  all["rows"].push_back(row_of_plan(down(512), measured.plan, 200.0));
  Machine machine = tuned_machine(all);
  EXPECT_EQ(choice_bytes(make_plan(down(512), machine)), choice_bytes(measured.plan));
  const auto algorithm = [&](std::int64_t m) {
    const Plan plan = make_plan(down(m), machine);
    const auto* const way = way_if<UnfusedSumWay>(plan);
    return way == nullptr ? 0 : way->cublas;
  };
  for (const std::int64_t m : {450, 500, 512, 520, 600}) EXPECT_EQ(algorithm(m), 2) << m;
  machine.cublas = false;
  for (const std::int64_t m : {500, 512}) {
    EXPECT_EQ(algorithm(m), 0) << m;
    const std::string reason = make_plan(down(m), machine).reason;
    EXPECT_NE(reason.find("a near row has a product of cuBLASLt"), std::string::npos) << reason;
  }
}

/// Kernels of the two half types differ in conversions alone.
TEST(TunedPlan, HalfTypesShareRows) {
  Problem p = down(1024);
  p.dtype = DType::fp16;
  const Plan plan = make_plan(p, tuned_machine(table()));
  EXPECT_EQ(kind_of(plan), prediction(down(1024), 7).kind);
  EXPECT_NE(plan.reason.find("tuned: "), std::string::npos) << plan.reason;
}

/// Of two rows of one size the one of the problem's own type, in either order.
TEST(TunedPlan, ARowOfTheOwnTypeGoesBeforeAnothersOfTheSameSize) {
  Problem half = down(1024);
  half.dtype = DType::fp16;
  for (const bool other_first : {false, true}) {
    json rows = json::array({row_of_plan(down(1024), prediction(down(1024), 7).plan, 377.5)});
    rows.insert(other_first ? rows.begin() : rows.end(),
                row_of_plan(half, prediction(half, 3).plan, 366.5));
    json all = table();
    all["rows"] = rows;
    const Machine machine = tuned_machine(all);
    EXPECT_EQ(make_plan(half, machine).reason.find("tuned: the fastest measured, 366.5 us"), 0U);
    EXPECT_EQ(make_plan(down(1024), machine).reason.find("tuned: the fastest measured, 377.5 us"),
              0U);
  }
}

TEST(TunedPlan, OtherRanksAndMachinesAreNotTouched) {
  Machine machine = tuned_machine(table());
  Machine plain = cuda_machine();
  const auto same = [&](const Problem& p) {
    EXPECT_EQ(choice_bytes(make_plan(p, machine)), choice_bytes(make_plan(p, plain)))
        << fmt::format("{}", fmt::streamed(p));
  };
  Problem p = down(1024);
  p.ranks = 4;
  same(p);
  machine.multiprocessors = plain.multiprocessors = 66;
  same(down(1024));
  machine.multiprocessors = plain.multiprocessors = 132;
  machine.shared_device = plain.shared_device = true;
  same(down(1024));
}

TEST(TunedPlan, WhatIsAskedForGoesFirst) {
  const Machine machine = tuned_machine(table());
  PlanOptions asked;
  asked.path = Path::unfused;
  EXPECT_EQ(make_plan(down(1024), machine, asked), make_plan(down(1024), cuda_machine(), asked));
}

TEST(TunedPlan, TheDistanceAddsFactorsOfTwo) {
  EXPECT_EQ(tuning_distance(down(1024), down(1024)), 0);
  EXPECT_EQ(tuning_distance(down(1024), down(2048)), 1);
  Problem p = down(512);
  p.k *= 2;
  EXPECT_EQ(tuning_distance(down(1024), p), 2);
}

}  // namespace
}  // namespace tilelace::plan
