// SPDX-License-Identifier: Apache-2.0
#include "ops/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/cuda/capabilities.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kMostLines = 12;  // of wrong cases

}  // namespace

Report::Report(int ranks, std::uint64_t seed, bool drop, const std::string& json,
               std::string commit)
    : ranks_(ranks), seed_(seed), drop_(drop), commit_(std::move(commit)), json_(json, true) {}

void Report::add(const Case& c, const Tally& t) {
  const std::scoped_lock lock(mutex_);
  calls_ += t.calls;
  if (!t.replayed) ++eager_;
  double& worst = worst_[plan::kind_of(c.plan)];
  worst = std::max(worst, t.worst);
  if (drop_) {
    const int missed = t.calls - t.blind - t.wrong;
    missed_ += missed;
    if (missed != 0 && lines_++ < kMostLines)
      fmt::print("NOT NOTICED in {} of {} calls: {}\n", missed, t.calls, text_of(c));
  } else if (t.wrong > 0) {
    ++wrong_;
    if (lines_++ < kMostLines)
      fmt::print("WRONG in {} of {} calls: {}\n      {}\n", t.wrong, t.calls, text_of(c), t.first);
    std::fflush(stdout);
  }
}

void Report::conclude(Op op, DType dtype, const std::vector<Case>& cases) {
  std::map<std::string, int> kinds;
  for (const Case& c : cases) ++kinds[plan::kind_of(c.plan)];
  std::string by_kind;
  for (const auto& [kind, count] : kinds) by_kind += fmt::format(", {} {}", kind, count);
  // Each rank counts.
  const int eager = eager_ / ranks_;
  if (eager > 0) by_kind += fmt::format("; {} without graphs: copies that wait, on shares", eager);
  const double limit = frobenius_limit(op, dtype);
  rows_.push_back(fmt::format(
      "{} {}: {} shapes ({} exact{}), {} calls: {} {}, relative error (limit {:.5f})", name_of(op),
      name_of(dtype), cases.size(),
      std::count_if(cases.begin(), cases.end(), [](const Case& c) { return c.exact; }), by_kind,
      calls_, drop_ ? missed_ : wrong_,
      drop_ ? "passed without a rank's part" : "wrong cases (counted on each rank)", limit));
  Json errors = Json::object();
  double largest = 0;
  for (const auto& [kind, worst] : worst_) {
    // Exact and activated results are judged element by element alone.
    rows_.back() +=
        worst > 0 ? fmt::format(", {} {:.5f}", kind, worst) : fmt::format(", {} by element", kind);
    errors[kind] = worst;
    largest = std::max(largest, worst);
  }
  const bool good = (drop_ ? missed_ : wrong_) == 0 && (drop_ || largest <= limit);
  bad_ = bad_ || !good;
  Json line = head("tilelace.conformance/1", name_of(op), dtype);
  line["shapes"] = cases.size();
  line["without_graphs"] = eager;
  line["calls"] = calls_;
  line["kinds"] = kinds;
  line["wrong"] = wrong_;
  line["worst_error"] = largest;
  line["worst_error_by_kind"] = errors;
  line["dropped"] = drop_;
  line["missed"] = drop_ ? Json(missed_) : Json(nullptr);
  line["verified"] = good;
  json_.write(line);
  calls_ = missed_ = wrong_ = lines_ = eager_ = 0;
  worst_.clear();
}

void Report::add(const LongRun& run, const StressResult& r,
                 const std::vector<std::string>& troubles) {
  std::size_t wrong = 0;
  for (const std::string& t : troubles) wrong += t.empty() ? 0 : 1;
  for (const std::string& t : troubles)
    if (!t.empty() && !drop_)
      fmt::print("WRONG: {} {}, {}: {}\n", run.op, run.kind, name_of(run.pace), t);
  const bool good = drop_ ? wrong == troubles.size() : wrong == 0;
  bad_ = bad_ || !good;
  rows_.push_back(fmt::format("{} {}: {} {}, {} calls, {:.1f} us a call: wrong on {} of {} ranks{}",
                              run.op, name_of(run.dtype), name_of(run.pace), run.kind, r.calls,
                              r.us, wrong, troubles.size(),
                              drop_ ? " (an input is lost: must be all)" : ""));
  fmt::print("{}\n", rows_.back());
  std::fflush(stdout);
  Json line = head("tilelace.stress/1", run.op, run.dtype);
  line["kind"] = run.kind;
  line["pace"] = name_of(run.pace);
  line["graphs"] = r.graphs;
  line["communicators"] = run.communicators;
  line["communicator"] = run.communicator;
  line["calls"] = r.calls;
  line["us"] = r.us;
  line["wrong_ranks"] = wrong;
  line["dropped"] = drop_;
  line["verified"] = good;
  json_.write(line);
}

int Report::print() const {
  fmt::print("\n{} ranks on {} of {}\n", ranks_, std::min(ranks_, comm::device_count()),
             device_name());
  for (const std::string& row : rows_) fmt::print("{}\n", row);
  fmt::print("{}\n", bad_ ? "WRONG" : "all right");
  return bad_ ? 1 : 0;
}

Json Report::head(const char* schema, std::string_view op, DType dtype) const {
  Json line;
  line["schema"] = schema;
  line["op"] = op;
  line["backend"] = "cuda";
  line["ranks"] = ranks_;
  line["dtype"] = name_of(dtype);
  line["seed"] = seed_;
  line["device"] = device_name();
  line["driver"] = driver_version();
  line["commit"] = commit_.empty() ? Json(nullptr) : Json(commit_);
  line["time"] = utc_now();
  return line;
}

}  // namespace tilelace::gpu_test
