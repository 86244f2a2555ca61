// SPDX-License-Identifier: Apache-2.0
#include "row.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

using nlohmann::json;

std::vector<double> durations(const std::vector<RankPart>& parts, std::size_t way) {
  std::vector<double> all;
  for (std::size_t i = 0; i < parts[0].samples[way].size(); ++i) {
    double begin = HUGE_VAL, end = 0;
    for (const RankPart& p : parts) {
      begin = std::min(begin, p.samples[way].at(i).begin);
      end = std::max(end, p.samples[way].at(i).end);
    }
    all.push_back((end - begin) * 1e6);
  }
  return all;
}

/// How the own figure is called where another stands in its place.
std::string own_name(Way way) {
  return fmt::format("tilelace_{}", way == Way::gemm         ? "gemm"
                                    : way == Way::collective ? "collective"
                                                             : "unfused");
}

void join_peers(const std::vector<PeerTime>& peers, Row& row) {
  std::map<Way, double> best;
  for (const PeerTime& peer : peers) {
    const double us = row.peers[peer.name] = quantile(peer.us, 0.5);
    if (!peer.way) continue;
    const auto [at, fresh] = best.try_emplace(*peer.way, us);
    at->second = std::min(at->second, us);
  }
  for (const auto& [way, us] : best) {
    std::optional<double>& figure = row.us[static_cast<std::size_t>(way)];
    if (figure) row.peers[own_name(way)] = *figure;
    figure = way == Way::gemm ? std::min(us, figure.value_or(us)) : us;
  }
}

void join_checks(const std::vector<RankPart>& parts, bool same, Row& row) {
  double errors = 0, values = 0;
  row.exact = row.verified = true;
  for (const RankPart& p : parts) {
    errors += p.error_squares;
    values += p.value_squares;
    row.exact = *row.exact && p.exact;
    row.verified = *row.verified && p.pass;
    if (row.complaint.empty()) row.complaint = p.complaint;
    if (same && p.result_hash != parts[0].result_hash) {
      row.verified = false;
      if (row.complaint.empty()) row.complaint = "ranks hold different bits of the result";
    }
  }
  row.error = values > 0 ? std::sqrt(errors / values) : std::sqrt(errors);
}

}  // namespace

std::optional<double> Row::longer_us() const {
  if (!time(Way::gemm) || !time(Way::collective)) return std::nullopt;
  return std::max(*time(Way::gemm), *time(Way::collective));
}

std::optional<double> Row::ect() const {
  if (!time(Way::gemm) || !time(Way::fused)) return std::nullopt;
  return *time(Way::fused) - *time(Way::gemm);
}

std::optional<double> Row::efficiency() const {
  if (!ect() || !time(Way::unfused) || *time(Way::unfused) <= *time(Way::gemm)) return std::nullopt;
  return 1 - *ect() / (*time(Way::unfused) - *time(Way::gemm));
}

std::optional<double> Row::speedup() const {
  if (!time(Way::unfused) || !time(Way::fused)) return std::nullopt;
  return *time(Way::unfused) / *time(Way::fused);
}

std::string unsteady_text(const Steadiness& s) {
  // Beyond it times say more about the machine than about the paths.
  constexpr double kUnsteady = 2;
  std::string what;
  if (s.spread > kUnsteady) what = "fused times differ by more than a factor of 2";
  if (s.shorter > 0)
    what += fmt::format("{}{} row{} took less than GEMM or collective alone",
                        what.empty() ? "" : ", ", s.shorter, s.shorter == 1 ? "" : "s");
  if (what.empty()) return {};
  const std::string why =
      s.ranks * s.workers > s.cores
          ? fmt::format("{} ranks with {} worker{} each share {} core{}", s.ranks, s.workers,
                        s.workers == 1 ? "" : "s", s.cores, s.cores == 1 ? "" : "s")
          : fmt::format("something else may use these {} cores", s.cores);
  return fmt::format("Times are unsteady ({}): {}. Repeat before you compare.\n", what, why);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

std::string to_text(const RankPart& part) {
  json samples = json::array();
  for (const auto& way : part.samples) {
    json list = json::array();
    for (const Span& s : way) list.push_back({s.begin, s.end});
    samples.push_back(std::move(list));
  }
  json candidates = json::array();
  for (const CallTime& c : part.candidates) candidates.push_back({c.index, c.us});
  json peers = json::array();
  for (const PeerTime& p : part.peers)
    peers.push_back({p.name, p.way ? json(static_cast<int>(*p.way)) : json(nullptr), p.us});
  return json{
      {"row", part.row},
      {"pass", part.pass},
      {"exact", part.exact},
      {"error", part.error_squares},
      {"value", part.value_squares},
      {"hash", part.result_hash},
      {"complaint", part.complaint},
      {"host", part.host ? json{part.host->us, part.host->beside_graphs_us} : json(nullptr)},
      {"candidates", candidates},
      {"peers", peers},
      {"plans", part.plans},
      {"samples", samples}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

RankPart part_of(const std::string& text) {
  const json j = json::parse(text);
  RankPart p;
  p.row = j.at("row");
  p.pass = j.at("pass");
  p.exact = j.at("exact");
  // NaN travels as null.
  const auto number = [&](const char* key) {
    return j.at(key).is_null() ? std::nan("") : j.at(key).get<double>();
  };
  p.error_squares = number("error");
  p.value_squares = number("value");
  p.result_hash = j.at("hash");
  p.complaint = j.at("complaint");
  if (const json& host = j.at("host"); !host.is_null()) p.host = {host.at(0), host.at(1)};
  for (const auto& c : j.at("candidates")) p.candidates.push_back({c.at(0), c.at(1)});
  for (const auto& x : j.at("peers")) {
    p.peers.push_back({x.at(0)});
    if (!x.at(1).is_null()) p.peers.back().way = static_cast<Way>(x.at(1).get<int>());
    p.peers.back().us = x.at(2).get<std::vector<double>>();
  }
  p.plans = j.at("plans");
  for (std::size_t w = 0; w < kWays; ++w) {
    for (const auto& s : j.at("samples").at(w)) p.samples[w].push_back({s.at(0), s.at(1)});
  }
  return p;
}

Row named_row(const Workload& work, int row) {
  const Job& job = job_of(work, row);
  Row r;
  r.number = row;
  r.layer = job.gemm.layer;
  r.label = work.several_layers ? fmt::format("{}.{}", job.layer, job.gemm.layer) : job.gemm.layer;
  r.op = name_of(job);
  r.m = m_of(work, row);
  r.n = job.then ? job.then->full_k : sum_of(job.gemm.full_n);
  r.k = job.gemm.full_k;
  if (!job.given.empty()) r.label += (r.label.empty() ? "" : " ") + job.given;
  return r;
}

Row empty_row(const Workload& work, const Machine& machine, int row) {
  const Job& job = job_of(work, row);
  Row r = named_row(work, row);
  r.plan =
      make_plan(problem_of(job.gemm, r.m, work.dtype), machine, options_for(work.options, job));
  return r;
}

Row join(const Workload& work, const Machine& machine, const std::vector<RankPart>& parts) {
  Row row = empty_row(work, machine, parts[0].row);
  row.iterations = static_cast<int>(parts[0].samples[static_cast<std::size_t>(Way::fused)].size());
  for (std::size_t w = 0; w < kWays; ++w) {
    const auto all = durations(parts, w);
    if (all.empty()) continue;
    row.us[w] = quantile(all, 0.5);
    if (static_cast<Way>(w) != Way::fused) continue;
    const double p10 = quantile(all, 0.1);
    if (p10 > 0) row.spread = quantile(all, 0.9) / p10;
  }
  for (const RankPart& p : parts) {
    if (!p.host) continue;
    if (!row.host) row.host.emplace();
    row.host->us = std::max(p.host->us, row.host->us);
    row.host->beside_graphs_us = std::max(p.host->beside_graphs_us, row.host->beside_graphs_us);
  }
  join_peers(parts[0].peers, row);
  row.plans = parts[0].plans;
  const Job& job = job_of(work, parts[0].row);
  if (work.check) join_checks(parts, row_of(job.gemm.op).shares, row);
  if (job.then) row.exact.reset();
  if (parts[0].candidates.empty()) return row;
  const auto ways = candidates_of(work, job, row.m, machine);
  for (const CallTime& c : parts[0].candidates) {
    row.candidates.push_back({ways.at(c.index), c.us});
    if (c.index == 0) row.planned_us = c.us;
  }
  row.plan = row.candidates.front().way.plan;
  return row;
}

}  // namespace tilelace::cli
