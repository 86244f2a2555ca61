// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/tuning_draft.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/tuning/grouped_rows.h"
#include "plan/words/plan_words.h"

namespace tilelace::plan {
namespace {

using nlohmann::ordered_json;

/// The part of a row that says whose it is.
ordered_json key_of(const Problem& p) {
  return {{"op", name_of(p.op)},
          {"ranks", p.ranks},
          {"dtype", name_of(p.dtype)},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"swiglu", p.activation == Activation::swiglu}};
}
ordered_json key_of(const GroupedProduct& p) {
  return {{"op", kGroupedOp},
          {"ranks", 1},
          {"dtype", name_of(p.dtype)},
          {"m", p.rows},
          {"n", ordered_json::array({p.n})},
          {"k", p.k},
          {"swiglu", p.gated},
          {"experts", p.experts}};
}
/// Rows of unknown ops may lack such a part: then the whole row is its key.
ordered_json key_of(const ordered_json& row) {
  ordered_json key;
  for (const char* name : {"op", "ranks", "dtype", "m", "n", "k"}) {
    if (!row.contains(name)) return row;
    key[name] = row[name];
  }
  key["swiglu"] = row.contains("swiglu") ? row["swiglu"] : ordered_json(false);
  if (row.contains("experts")) key["experts"] = row["experts"];
  return key;
}

/// The row of this key, or null.
template <class Rows>
auto* find(Rows& rows, const ordered_json& key) {
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const ordered_json& row) { return key_of(row) == key; });
  return at == rows.end() ? nullptr : &*at;
}

ordered_json json_of(const TunedDevice& d) {
  ordered_json device = {
      {"name", d.name}, {"architecture", d.architecture}, {"multiprocessors", d.multiprocessors}};
  if (d.memory_gbps > 0) device["memory_gbps"] = std::round(d.memory_gbps);
  return device;
}

/// Empty: rows of the one say something of the other.
std::string difference(const TuningTable& theirs, const ordered_json& their_json,
                       const ordered_json& ours) {
  if (!their_json.at("kernels").is_object()) return "kernels of an earlier release";
  for (const char* fact : {"architecture", "multiprocessors", "name"})
    if (their_json.at("device").at(fact) != ours.at("device").at(fact)) return "other GPUs";
  const double rate = ours.at("device").value("memory_gbps", 0.0);
  return same_memory(theirs.device.memory_gbps, rate) ? "" : "GPUs with other memory";
}

/// Takes rows out whose tile is another one in `kernels`, and returns how many; what is left of the
/// table agrees with them.
std::size_t leave_out_changed(ordered_json& table, const ordered_json& kernels) {
  const auto& theirs = table.at("kernels");
  const auto changed = [&](const ordered_json& row) {
    const auto plan = row.find("plan");  // rows of unknown ops were not looked at
    if (plan == row.end() || !plan->is_string()) return false;
    const std::string tile(tile_in_words(plan->get_ref<const std::string&>()));
    return kernels.contains(tile) && theirs.value(tile, ordered_json()) != kernels.at(tile);
  };
  auto& rows = table.at("rows").get_ref<ordered_json::array_t&>();
  const auto left = std::erase_if(rows, changed);
  table["kernels"].update(kernels);
  return left;
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

struct TuningDraft::Json {
  ordered_json all;

  /// `row` has what comes before its plan.
  void put(ordered_json row, const std::string& plan, const TunedTimes& t) {
    row["plan"] = plan;
    row["us"] = t.us;
    row["predicted_choice_us"] = t.predicted_us > 0 ? ordered_json(t.predicted_us) : ordered_json();
    row["plans"] = t.plans;
    row["commit"] = t.commit;
    row["time"] = utc_now();
    ordered_json& rows = all.at("rows");
    if (ordered_json* const old = find(rows, key_of(row)))
      *old = std::move(row);
    else
      rows.push_back(std::move(row));
  }
};

TuningDraft::TuningDraft(std::string file, const TunedDevice& device, const std::string& bytes)
    : file_(std::move(file)),
      architecture_(architecture_named(device.architecture).value()),
      table_(std::make_unique<Json>()) {
  ordered_json& all = table_->all;
  all = {{"schema", "tilelace.tuning/1"},
         {"kernels", kernel_set(architecture_)},
         {"device", json_of(device)},
         {"rows", ordered_json::array()}};
  if (bytes.empty()) return;
  const auto checked = tuning_of(file_, bytes);
  ordered_json there = ordered_json::parse(bytes);
  const std::string differs = difference(*checked, there, all);
  if (!differs.empty()) {
    note_ = fmt::format("{} is for {}: begun anew", file_, differs);
    anew_ = true;
    return;
  }
  if (device.memory_gbps > 0) there["device"] = all["device"];
  if (const std::size_t left = leave_out_changed(there, all["kernels"]); left > 0)
    note_ = fmt::format("{}: {} rows are timed again: kernels have changed since", file_, left);
  all = std::move(there);
}
TuningDraft::TuningDraft(TuningDraft&&) noexcept = default;
TuningDraft& TuningDraft::operator=(TuningDraft&&) noexcept = default;
TuningDraft::~TuningDraft() = default;

std::size_t TuningDraft::rows() const { return table_->all.at("rows").size(); }

bool TuningDraft::has(const Problem& p) const {
  return find(table_->all.at("rows"), key_of(p)) != nullptr;
}

bool TuningDraft::has(const GroupedProduct& p) const {
  const auto* const row = find(table_->all.at("rows"), key_of(p));
  if (row == nullptr) return false;
  const GroupedShape* const shape = plans_of(architecture_).grouped.find(row->value("plan", ""));
  return shape != nullptr && row->value("kernels", "") == grouped_kernels(*shape);
}

void TuningDraft::put(const Problem& p, const Plan& plan, const TunedTimes& t) {
  table_->put(key_of(p), fmt::format("{}", fmt::streamed(plan)), t);
}

void TuningDraft::put(const GroupedProduct& p, const GroupedShape& shape, const TunedTimes& t) {
  ordered_json row = key_of(p);
  row["kernels"] = grouped_kernels(shape);
  table_->put(std::move(row), std::string(shape.name), t);
}

std::size_t TuningDraft::merge(const std::string& other, const std::string& bytes) {
  const auto checked = tuning_of(other, bytes);
  ordered_json theirs = ordered_json::parse(bytes);
  const std::string differs = difference(*checked, theirs, table_->all);
  require(differs.empty(), "tuning: {}: the table is for {}, so it cannot be merged into {}", other,
          differs, file_);
  leave_out_changed(theirs, table_->all.at("kernels"));
  table_->all["kernels"] = theirs.at("kernels");
  ordered_json& rows = table_->all.at("rows");
  const std::size_t before = rows.size();
  for (const ordered_json& row : theirs.at("rows"))
    if (find(rows, key_of(row)) == nullptr) rows.push_back(row);
  return rows.size() - before;
}

std::string TuningDraft::text() const {
  // A row a line, so that tables can be compared line by line.
  std::string text = "{\n";
  for (const auto& [name, value] : table_->all.items())
    if (name != "rows") text += fmt::format("  {}: {},\n", ordered_json(name).dump(), value.dump());
  text += "  \"rows\": [";
  const char* between = "\n    ";
  for (const ordered_json& row : table_->all.at("rows")) {
    text += between + row.dump();
    between = ",\n    ";
  }
  text += "\n  ]\n}\n";
  return text;
}

}  // namespace tilelace::plan
