// SPDX-License-Identifier: Apache-2.0
#include "collectives/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "json_values.h"
#include "row.h"

namespace tilelace::cli {
namespace {

void replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

/// At most six characters.
std::string show_rate(double gb_per_s) {
  return fmt::format("{:.{}f}", gb_per_s, gb_per_s >= 999.5 ? 0 : gb_per_s >= 9.995 ? 1 : 2);
}

std::string show_ratio(std::optional<double> ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

/// The title of a baseline's column: without what all have in common.
std::string title_of(const std::string& baseline) {
  const std::size_t at = baseline.find('_');
  const std::string name = at == std::string::npos ? baseline : baseline.substr(at + 1);
  return name.substr(0, 6);
}

std::optional<double> mean_ratio(const std::vector<CollectiveTimes>& rows,
                                 const std::string& baseline) {
  double logs = 0;
  int count = 0;
  for (const CollectiveTimes& row : rows) {
    const auto us = baseline.empty() ? row.best_us() : row.time_us(baseline);
    if (!us) continue;
    logs += std::log(*us / row.time_us());
    ++count;
  }
  return count > 0 ? std::optional(std::exp(logs / count)) : std::nullopt;
}

}  // namespace

double CollectiveTimes::time_us() const { return quantile(us, 0.5); }

std::optional<double> CollectiveTimes::time_us(const std::string& baseline) const {
  const auto at = baselines.find(baseline);
  if (at == baselines.end() || at->second.empty()) return std::nullopt;
  return quantile(at->second, 0.5);
}

std::optional<double> CollectiveTimes::best_us() const {
  std::optional<double> best;
  for (const auto& [name, samples] : baselines) {
    const auto theirs = time_us(name);
    if (theirs) best = std::min(*theirs, best.value_or(*theirs));
  }
  return best;
}

double CollectiveTimes::spread() const { return quantile(us, 0.9) / quantile(us, 0.1); }

std::string to_text(const CollectiveTimes& t) {
  Json j;
  j["op"] = static_cast<int>(t.op);
  j["ranks"] = t.ranks;
  j["bytes"] = t.bytes;
  j["plan"] = t.plan;
  j["us"] = t.us;
  j["baselines"] = t.baselines;
  j["complaint"] = t.complaint;
  return j.dump();
}

CollectiveTimes collective_times_of(const std::string& text) {
  const Json j = Json::parse(text);
  CollectiveTimes t;
  t.op = static_cast<Collective>(j["op"].get<int>());
  t.ranks = j["ranks"];
  t.bytes = j["bytes"];
  t.plan = j["plan"];
  t.us = j["us"].get<std::vector<double>>();
  t.baselines = j["baselines"].get<std::map<std::string, std::vector<double>>>();
  t.complaint = j["complaint"];
  return t;
}

double algorithm_rate(std::int64_t bytes, double us) {
  return static_cast<double>(bytes) / us / 1e3;
}

double bus_rate(Collective op, int ranks, std::int64_t bytes, double us) {
  const double passages = row_of(op).shares ? 2 : 1;
  return algorithm_rate(bytes, us) * passages * (ranks - 1) / ranks;
}

std::string short_plan(std::string words) {
  replace(words, " in two shots", ", 2 shots");
  replace(words, " workers, chunk ", " x ");
  replace(words, " bytes", "");
  return words;
}

Table collective_table(const std::vector<std::string>& baselines, int characters) {
  std::vector<Column> columns{
      {"size", 8, false, 0, "size: bytes, as nccl-tests counts them."},
      {"us", 6, false, 0, "us: median, the slowest rank's."},
      {"algbw", 6, false, 1, "algbw: size / time, GB/s."},
      {"busbw", 6, false, 0, "busbw: that times (n-1)/n, all_reduce: 2 (n-1)/n."}};
  for (const std::string& baseline : baselines)
    columns.push_back({title_of(baseline), 6, false, 2});
  if (!baselines.empty()) columns.push_back({"ratio", 5, false, 0, "ratio: fastest NCCL / ours."});
  columns.push_back({"plan", 0, true, 0, "plan: lines or chunks, workers x bytes of a chunk."});
  return Table(std::move(columns), "n: ranks.", characters);
}

std::vector<std::string> collective_cells(const CollectiveTimes& t,
                                          const std::vector<std::string>& baselines) {
  std::vector<std::string> cells{show_size(t.bytes), show_us(t.time_us()),
                                 show_rate(algorithm_rate(t.bytes, t.time_us())),
                                 show_rate(bus_rate(t.op, t.ranks, t.bytes, t.time_us()))};
  for (const std::string& baseline : baselines) cells.push_back(show_us(t.time_us(baseline)));
  const auto best = t.best_us();
  if (!baselines.empty())
    cells.push_back(show_ratio(best ? std::optional(*best / t.time_us()) : std::nullopt));
  cells.push_back(t.complaint.empty() ? short_plan(t.plan) : "WRONG");
  return cells;
}

std::string collective_means(const std::vector<CollectiveTimes>& rows,
                             const std::vector<std::string>& baselines) {
  if (baselines.empty()) return {};
  std::string text = "Geometric mean of baseline / ours:";
  for (const std::string& baseline : baselines)
    text += fmt::format(" {} {},", baseline, show_ratio(mean_ratio(rows, baseline)));
  return text + fmt::format(" the fastest {}", show_ratio(mean_ratio(rows, {})));
}

}  // namespace tilelace::cli
