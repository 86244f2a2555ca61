// SPDX-License-Identifier: Apache-2.0
#include "tuning_file.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/architecture.h"
#include "core/check.h"
#include "machine.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::cli {
namespace {

/// The part of a row that says whose it is.
Json key_of(const Problem& p) {
  Json key{{"op", name_of(p.op)},
           {"ranks", p.ranks},
           {"dtype", name_of(p.dtype)},
           {"m", p.m},
           {"n", p.n},
           {"k", p.k}};
  if (p.activation == Activation::swiglu) key["swiglu"] = true;
  return key;
}

bool is_of(const Json& row, const Json& key) {
  for (const auto& [name, value] : key.items())
    if (!row.contains(name) || row.at(name) != value) return false;
  return row.value("swiglu", false) == key.value("swiglu", false);
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  require(in.good(), "{}: got no file that can be read, expected a table", file.string());
  return bytes.str();
}

/// Checked as communicators check it.
Json checked_table(const std::filesystem::path& file) {
  const std::string bytes = bytes_of(file);
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
  const Json key = key_of(p);
  return std::ranges::any_of(table_.at("rows"), [&](const Json& row) { return is_of(row, key); });
}

void TuningFile::put(const Problem& p, const Plan& plan, const TunedTimes& t) {
  Json row = key_of(p);
  row["plan"] = fmt::format("{}", fmt::streamed(plan));
  row["us"] = t.us;
  row["predicted_choice_us"] = t.predicted_us > 0 ? Json(t.predicted_us) : Json();
  row["plans"] = t.plans;
  row["commit"] = TILELACE_COMMIT;
  row["time"] = utc_now();
  const Json key = key_of(p);
  for (Json& old : table_.at("rows"))
    if (is_of(old, key)) {
      old = std::move(row);
      return;
    }
  table_.at("rows").push_back(std::move(row));
}

std::size_t TuningFile::merge(const std::filesystem::path& other) {
  const Json theirs = checked_table(other);
  const std::string differs = difference(theirs, table_);
  require(differs.empty(), "--merge: {}: got a table of {}, expected one like {}", other.string(),
          differs, file_.string());
  std::size_t added = 0;
  for (const Json& row : theirs.at("rows")) {
    Json key;
    for (const char* name : {"op", "ranks", "dtype", "m", "n", "k", "swiglu"})
      if (row.contains(name)) key[name] = row.at(name);
    const bool there =
        std::ranges::any_of(table_.at("rows"), [&](const Json& own) { return is_of(own, key); });
    if (there) continue;
    table_.at("rows").push_back(row);
    ++added;
  }
  return added;
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
  const std::filesystem::path next = file_.string() + ".new";
  std::error_code error;
  {
    std::ofstream out(next, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    require(out.good(), "--out: {}: got no file that can be written, expected one", next.string());
  }
  std::filesystem::rename(next, file_, error);
  require(!error, "--out: {}: got \"{}\", expected a file to write", file_.string(),
          error.message());
}

}  // namespace tilelace::cli
