// SPDX-License-Identifier: Apache-2.0
#include "tuning_file.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <utility>

#include "core/architecture.h"
#include "core/check.h"
#include "core/read_text.h"
#include "machine.h"
#include "plan/tuning/tuning_table.h"
#include "text_file.h"

namespace tilelace::cli {
namespace {

/// The part of a row that says whose it is.
Json key_of(const Problem& p) {
  return {{"op", name_of(p.op)},
          {"ranks", p.ranks},
          {"dtype", name_of(p.dtype)},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"swiglu", p.activation == Activation::swiglu}};
}
Json key_of(const Json& row) {
  Json key;
  for (const char* name : {"op", "ranks", "dtype", "m", "n", "k"}) key[name] = row.at(name);
  key["swiglu"] = row.value("swiglu", false);
  return key;
}

/// The row of this key, or null.
template <class Rows>
auto* find(Rows& rows, const Json& key) {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const Json& row) { return key_of(row) == key; });
  return at == rows.end() ? nullptr : &*at;
}

/// Checked as communicators check it.
Json checked_table(const std::filesystem::path& file) {
  const std::string bytes = read_text("tuning", file, plan::kMostTuningBytes);
  plan::tuning_of(file.string(), bytes);
  return Json::parse(bytes);
}

Json device_of(const GpuFacts& gpus) {
  return {{"name", gpus.name},
          {"architecture", name_of_architecture(gpus.architecture)},
          {"multiprocessors", gpus.multiprocessors}};
}

/// Empty: rows of the one say something of the other.
std::string difference(const Json& a, const Json& b) {
  if (a.at("kernels") != b.at("kernels")) return "another set of kernels";
  for (const char* fact : {"architecture", "multiprocessors", "name"})
    if (a.at("device").at(fact) != b.at("device").at(fact)) return "other GPUs";
  return "";
}

}  // namespace

TuningFile::TuningFile(std::filesystem::path file, const GpuFacts& gpus) : file_(std::move(file)) {
  table_ = {{"schema", "tilelace.tuning/1"},
            {"kernels", plan::kernel_set()},
            {"device", device_of(gpus)},
            {"rows", Json::array()}};
  if (!std::filesystem::exists(file_)) return;
  Json there = checked_table(file_);
  const std::string differs = difference(there, table_);
  if (differs.empty())
    table_ = std::move(there);
  else
    note_ = fmt::format("{} is of {}: begun anew", file_.string(), differs);
}

bool TuningFile::has(const Problem& p) const {
  return find(table_.at("rows"), key_of(p)) != nullptr;
}

void TuningFile::put(const Problem& p, const Plan& plan, const TunedTimes& t) {
  Json row = key_of(p);
  row["plan"] = fmt::format("{}", fmt::streamed(plan));
  row["us"] = t.us;
  row["predicted_choice_us"] = t.predicted_us > 0 ? Json(t.predicted_us) : Json();
  row["plans"] = t.plans;
  row["commit"] = TILELACE_COMMIT;
  row["time"] = utc_now();
  Json& rows = table_.at("rows");
  if (Json* const old = find(rows, key_of(p)))
    *old = std::move(row);
  else
    rows.push_back(std::move(row));
}

std::size_t TuningFile::merge(const std::filesystem::path& other) {
  const Json theirs = checked_table(other);
  const std::string differs = difference(theirs, table_);
  require(differs.empty(), "--merge: {}: got a table of {}, expected one like {}", other.string(),
          differs, file_.string());
  Json& rows = table_.at("rows");
  const std::size_t before = rows.size();
  for (const Json& row : theirs.at("rows"))
    if (find(rows, key_of(row)) == nullptr) rows.push_back(row);
  return rows.size() - before;
}

void TuningFile::write() const {
  // A row a line, so that tables can be compared line by line.
  std::string text = "{\n";
  for (const auto& [name, value] : table_.items())
    if (name != "rows") text += fmt::format("  {}: {},\n", Json(name).dump(), value.dump());
  text += "  \"rows\": [";
  const char* between = "\n    ";
  for (const Json& row : table_.at("rows")) {
    text += between + row.dump();
    between = ",\n    ";
  }
  text += "\n  ]\n}\n";
  write_text("--out", file_.string(), text);
}

}  // namespace tilelace::cli
