// SPDX-License-Identifier: Apache-2.0
// Tiles of products grouped by expert: which rows of a table are read, which are refused, and which
// tiles a product gets.
#include "plan/tuning/tuned_tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/base/expert_product.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/sm90_grouped.h"
#include "plan/tuning/tuning_draft.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

using nlohmann::json;

/// mixtral-8x7b's first product on one of two ranks.
GroupedProduct up(std::int64_t m) {
  MoeLayer l;
  l.dtype = DType::bf16;
  l.hidden = 4096, l.inner = 7168, l.experts = 8, l.top_k = 2;
  return expert_product(l, m, true);
}

TunedDevice device() { return device_of(cuda_machine(), "a GPU"); }

/// With a row for 1024 tokens, which the rule gives the tiles many, and one for 16.
TuningDraft draft() {
  TuningDraft d("mine.json", device());
  d.put(up(1024), kSm90Brief, {100, 110, 4, "c"});
  d.put(up(16), kSm90Many, {30, 31, 4, "c"});
  return d;
}
json tiles_table() { return json::parse(draft().text()); }

Machine with(const json& all) {
  Machine machine = cuda_machine();
  machine.tuning = tuning_of("mine.json", all.dump());
  return machine;
}

TEST(TunedTiles, TheDraftIsReadBack) {
  const auto table = tuning_of("mine.json", draft().text());
  EXPECT_TRUE(table->notes.empty());
  EXPECT_TRUE(table->rows.empty());
  ASSERT_EQ(table->grouped.size(), 2U);
  EXPECT_EQ(table->grouped[0].product, up(1024));
  EXPECT_EQ(table->grouped[0].shape, kSm90Brief);
  EXPECT_EQ(table->grouped[0].us, 100);
}

TEST(TunedTiles, TheRuleGoesByRowsAnExpertAndK) {
  GroupedProduct p{24 * 8, 2048, 512, 8, false, DType::bf16};
  EXPECT_EQ(sm90_grouped_shape(p), kSm90Few);
  ++p.rows;
  EXPECT_EQ(sm90_grouped_shape(p), kSm90Brief);
  p.k = 520;
  EXPECT_EQ(sm90_grouped_shape(p), kSm90Many);
  p.k = 512;
  p.gated = true;
  EXPECT_EQ(sm90_grouped_shape(p), kSm90Many);
}

TEST(TunedTiles, TilesAreAnArchitecturesByName) {
  const GroupedPlans& plans = grouped_plans_of("a test", cuda_machine().architecture);
  for (const GroupedShape& shape : plans.shapes) EXPECT_EQ(plans.find(shape.name), &shape);
  EXPECT_EQ(plans.find("huge"), nullptr);
  EXPECT_EQ(plans.rule(up(1024)), kSm90Many);
  EXPECT_NE(architectures_with_experts(), "");
}

TEST(TunedTiles, TheOwnRowIsTaken) {
  const TilesChoice choice = choose_tiles(up(1024), with(tiles_table()));
  ASSERT_NE(sm90_grouped_shape(up(1024)), kSm90Brief);
  EXPECT_EQ(choice.shape, kSm90Brief);
  EXPECT_EQ(choice.reason,
            "tuned: the fastest measured, 100.0 us at 2048 rows, 8 experts, n 14336, k 4096 in "
            "mine.json");
  EXPECT_TRUE(has_own_row(with(tiles_table()).tuning.get(), up(1024), cuda_machine()));
}

TEST(TunedTiles, NearARowItsTilesAreTaken) {
  const Machine machine = with(tiles_table());
  const TilesChoice choice = choose_tiles(up(1100), machine);
  EXPECT_EQ(choice.shape, kSm90Brief);
  EXPECT_EQ(choice.reason.find("tuned: tiles of the nearest row (distance 0.10), 100.0 us at 2048"),
            0U)
      << choice.reason;
  EXPECT_FALSE(has_own_row(machine.tuning.get(), up(1100), machine));
}

TEST(TunedTiles, FarFromEveryRowTheRuleDecides) {
  const Machine machine = with(tiles_table());
  for (const std::int64_t m : {0, 1, 64, 512, 1400, 8192}) {
    const TilesChoice choice = choose_tiles(up(m), machine), plain = choose_tiles(up(m), {});
    EXPECT_EQ(choice.shape, sm90_grouped_shape(up(m))) << m;
    EXPECT_EQ(plain.reason.find("rule: "), 0U) << plain.reason;
    EXPECT_EQ(choice.reason, plain.reason + "; mine.json has no row near it");
  }
}

TEST(TunedTiles, TheDistanceAddsFactorsOfTwo) {
  GroupedProduct p = up(512);
  EXPECT_EQ(tuning_distance(up(512), p), 0);
  EXPECT_EQ(tuning_distance(up(1024), p), 1);
  p.experts *= 2, p.k *= 2, p.n *= 2;
  EXPECT_EQ(tuning_distance(up(1024), p), 4);
}

TEST(TunedTiles, RowsOfOtherProductsAndMachinesAreNotTaken) {
  const auto rule = [](const GroupedProduct& p, const Machine& machine) {
    EXPECT_EQ(choose_tiles(p, machine).shape, sm90_grouped_shape(p))
        << choose_tiles(p, machine).reason;
  };
  Machine machine = with(tiles_table());
  GroupedProduct p = up(1024);
  p.gated = false;  // as large, but an expert's columns are twice as many
  rule(p, machine);
  p = up(1024);
  p.experts = 16;
  rule(p, machine);
  machine.multiprocessors = 114;
  rule(up(1024), machine);
  machine = with(tiles_table());
  machine.shared_device = true;
  rule(up(1024), machine);
}

TEST(TunedTiles, HalfTypesShareRows) {
  GroupedProduct p = up(1024);
  p.dtype = DType::fp16;
  EXPECT_EQ(choose_tiles(p, with(tiles_table())).shape, kSm90Brief);
}

TEST(TunedTiles, TheFirstOfEquallyNearTablesDecides) {
  Machine machine = with(tiles_table());
  TuningDraft other("other.json", device());
  other.put(up(1024), kSm90Few, {90, 0, 4, "c"});
  TuningTable first = *tuning_of("other.json", other.text());
  first.behind = machine.tuning;
  machine.tuning = std::make_shared<const TuningTable>(first);
  EXPECT_EQ(choose_tiles(up(1024), machine).shape, kSm90Few);
  EXPECT_EQ(choose_tiles(up(16), machine).shape, kSm90Many);
}

struct RowDamage {
  const char* what;
  std::function<void(json&)> done;  ///< to the first row
  const char* says;
};

TEST(TunedTiles, ADamagedRowIsAnErrorThatNamesIt) {
  const std::vector<RowDamage> all = {
      {"no experts", [](json& r) { r.erase("experts"); }, "experts is missing"},
      {"experts 0", [](json& r) { r["experts"] = 0; }, "experts: got 0"},
      {"too many experts", [](json& r) { r["experts"] = 1025; }, "expected at most 1024"},
      {"ranks 2", [](json& r) { r["ranks"] = 2; }, "ranks: got 2, expected 1"},
      {"two n",
       [](json& r) {
         r["n"] = {64, 64};
       },
       "n: got 2 numbers"},
      {"odd n", [](json& r) { r["n"] = {72}; }, "multiples of 16 and 8"},
      {"odd k", [](json& r) { r["k"] = 4; }, "multiples of 16 and 8"},
      {"m a text", [](json& r) { r["m"] = "2"; }, "m: got \"2\""},
      {"unknown tiles", [](json& r) { r["plan"] = "huge"; }, "got \"huge\", expected one of few"},
      {"no kernels", [](json& r) { r.erase("kernels"); }, "kernels is missing"},
      {"no us", [](json& r) { r.erase("us"); }, "us is missing"},
      {"us 0", [](json& r) { r["us"] = 0; }, "us: got 0"},
      {"another's row", [](json& r) { r["m"] = up(16).rows; }, "a second entry for"}};
  for (const RowDamage& damage : all) {
    json table = tiles_table();
    damage.done(table["rows"][0]);
    std::string says;
    try {
      tuning_of("mine.json", table.dump());
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      says = e.what();
    }
    EXPECT_EQ(says.find("mine.json: row "), 0U) << damage.what << ": " << says;
    EXPECT_NE(says.find(damage.says), std::string::npos) << damage.what << ": " << says;
  }
}

TEST(TunedTiles, ForeignRowsAreLeftOutWithANote) {
  const std::vector<std::array<const char*, 3>> all_foreign = {
      {"kernels", "0123", "mine.json: 1 rows of grouped_gemm left out: kernels have changed"},
      {"dtype", "fp4", "mine.json: row 0: left out: this build does not know"}};
  for (const auto& [field, value, note] : all_foreign) {
    json all = tiles_table();
    all["rows"][0][field] = value;
    const auto table = tuning_of("mine.json", all.dump());
    EXPECT_EQ(table->grouped.size(), 1U);
    ASSERT_EQ(table->notes.size(), 1U);
    EXPECT_EQ(table->notes[0].find(note), 0U) << table->notes[0];
  }
}

TEST(TunedTiles, ADraftGoesOnAndReplacesRowsOfOtherKernels) {
  json old = tiles_table();
  old["rows"][1]["kernels"] = "0123";
  TuningDraft again("mine.json", device(), old.dump());
  EXPECT_TRUE(again.has(up(1024)));
  EXPECT_FALSE(again.has(up(16)));
  EXPECT_FALSE(again.has(up(32)));
  again.put(up(16), kSm90Few, {29, 0, 4, "c"});
  again.put(up(1024), kSm90Few, {99, 0, 4, "c"});
  EXPECT_EQ(again.rows(), 2U);
  const auto table = tuning_of("mine.json", again.text());
  EXPECT_TRUE(table->notes.empty());
  EXPECT_EQ(table->grouped[0].shape, kSm90Few);
  EXPECT_EQ(table->grouped[1].shape, kSm90Few);
  TuningDraft merged("all.json", device());
  merged.put(up(16), kSm90Brief, {31, 0, 4, "c"});
  EXPECT_EQ(merged.merge("mine.json", again.text()), 1U);
}

TEST(TunedTiles, ChangedRowsChangeTheDigest) {
  TuningDraft other = draft();
  other.put(up(16), kSm90Few, {30, 31, 4, "c"});
  EXPECT_NE(tuning_of("a", draft().text())->digest_of_all(),
            tuning_of("a", other.text())->digest_of_all());
}

}  // namespace
}  // namespace tilelace::plan
