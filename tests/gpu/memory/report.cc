// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/check.h"
#include "json_lines.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kMostDetail = 400;

const char* name_of(Finding::Result result) {
  switch (result) {
    case Finding::Result::ok: return "ok";
    case Finding::Result::wrong: return "WRONG";
    case Finding::Result::error: return "ERROR";
  }
  return "?";
}

std::string figures_text(const Figures& figures) {
  std::string text;
  for (const auto& [name, value] : figures)
    text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", name, value);
  return text;
}

}  // namespace

std::string to_line(const Finding& f) {
  const nlohmann::json line = {{"check", f.check},    {"model", f.model},
                               {"rank", f.rank},      {"ranks", f.ranks},
                               {"detail", f.detail},  {"result", static_cast<int>(f.result)},
                               {"figures", f.figures}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Finding from_line(const std::string& line) {
  try {
    const auto j = nlohmann::json::parse(line);
    return {j.at("check"),
            j.at("model"),
            j.at("rank"),
            j.at("ranks"),
            static_cast<Finding::Result>(j.at("result").get<int>()),
            j.at("detail"),
            j.at("figures").get<Figures>()};
  } catch (const nlohmann::json::exception& e) {
    raise(ErrorKind::system, "gpu_memory_check: a rank's line \"{}\", got {}, expected a finding",
          line, e.what());
  }
}

void Report::add(const Finding& f) {
  auto row = std::find_if(rows_.begin(), rows_.end(),
                          [&](const Row& r) { return r.model == f.model && r.check == f.check; });
  if (row == rows_.end()) {
    rows_.push_back({Finding::Result::ok, f.model, f.check, f.ranks, {}, {}, {}});
    row = std::prev(rows_.end());
  }
  row->heard.push_back(f.rank);
  if (f.result != Finding::Result::ok && row->detail.size() < kMostDetail)
    row->detail += fmt::format("{}rank {}: {}", row->detail.empty() ? "" : " | ", f.rank, f.detail);
  row->result = std::max(row->result, f.result);
  for (const auto& [name, value] : f.figures) {
    const auto found = row->figures.emplace(name, value).first;
    found->second = std::max(found->second, value);
  }
}

std::vector<Report::Row> Report::rows() const {
  std::vector<Row> rows = rows_;
  for (Row& row : rows) {
    if (static_cast<int>(row.heard.size()) == row.ranks) continue;
    row.detail +=
        fmt::format("{}heard of ranks {}, expected {} ranks", row.detail.empty() ? "" : "; ",
                    fmt::join(row.heard, ", "), row.ranks);
    row.result = Finding::Result::error;
  }
  return rows;
}

int Report::exit_code() const {
  Finding::Result worst = Finding::Result::ok;
  bool wrong = false;
  for (const Row& row : rows()) {
    worst = std::max(worst, row.result);
    wrong = wrong || row.result == Finding::Result::wrong;
  }
  if (wrong) return 1;
  return worst == Finding::Result::ok ? 0 : 3;
}

void Report::print() const {
  std::size_t good = 0;
  const std::vector<Row> all = rows();
  fmt::print("{:<10} {:<28} {:>5}  {:<6} {}\n", "model", "check", "ranks", "result",
             "largest figures of a rank, or what was wrong");
  for (const Row& row : all) {
    const bool ok = row.result == Finding::Result::ok;
    if (ok) ++good;
    fmt::print("{:<10} {:<28} {:>5}  {:<6} {}\n", row.model, row.check, row.heard.size(),
               name_of(row.result), ok ? figures_text(row.figures) : row.detail);
  }
  fmt::print("{} of {} checks ok\n", good, all.size());
}

void Report::write_json(const std::string& file, const Machine& machine,
                        const std::string& commit) const {
  gpu_test::JsonLines json(file, false);
  const std::string now = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  for (const Row& row : rows())
    json.write({{"schema", "tilelace.memory/1"},
                {"check", row.check},
                {"model", row.model},
                {"ranks", row.ranks},
                {"ok", row.result == Finding::Result::ok},
                {"detail", row.detail},
                {"figures", row.figures},
                {"device", machine.name},
                {"driver", machine.driver},
                {"commit", commit},
                {"time", now}});
}

}  // namespace tilelace::comm::test
