// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "simulate/trace_events.h"
#include "summary.h"

namespace tilelace::gpu_test {
namespace {

/// Threads of a process are in the order of their numbers: flags first, then the lanes of each SM.
constexpr int kSmThreads = 1 << 20;
constexpr int kLanesShown = 8;

std::string lane_name(int lane) {
  switch (lane) {
    case cuda::kLoadLane: return "load";
    case cuda::kAdmitLane: return "admit";
    case cuda::kCopyLane: return "copy";
    default: return fmt::format("math {}", lane);
  }
}

class RankTrace {
 public:
  RankTrace(cli::TraceEvents& events, int rank, double origin_us)
      : events_(events), rank_(rank), origin_us_(origin_us) {
    events_.process(rank, fmt::format("rank {}", rank));
  }

  void add(const CallLine& call, double begin_us, int chunks) {
    for (const LaunchLine& launch : call.launches)
      for (const CtaLine& cta : launch.ctas) {
        for (const Span& s : cta.spans) add(s, cta.multiprocessor);
        if (chunks > 0)
          for (const Landing& l : cta.watched) landed_[l.flag] = l.us;
      }
    for (const auto& [flag, us] : landed_) {
      name(flag, fmt::format("from rank {}: chunk {}", flag / chunks, flag % chunks));
      events_.span(rank_, flag, "until it has landed", begin_us - origin_us_, us - begin_us);
    }
    landed_.clear();
  }

 private:
  void add(const Span& s, int multiprocessor) {
    const int thread = kSmThreads + multiprocessor * kLanesShown + s.lane;
    name(thread, fmt::format("SM {:03} {}", multiprocessor, lane_name(s.lane)));
    nlohmann::ordered_json more;
    if (s.tile >= 0) more["tile"] = s.tile;
    if (s.doing == Doing::multiply) more["starved_us"] = s.starved_us;
    const std::string what = s.doing == Doing::multiply || s.doing == Doing::load
                                 ? fmt::format("{} {}", name_of(s.doing), s.tile)
                                 : std::string(name_of(s.doing));
    events_.span(rank_, thread, what, s.begin_us - origin_us_, s.end_us - s.begin_us, more);
  }
  void name(int thread, const std::string& text) {
    if (named_.insert(thread).second) events_.thread(rank_, thread, text);
  }

  cli::TraceEvents& events_;
  int rank_;
  double origin_us_;
  std::set<int> named_;
  std::map<int, double> landed_;
};

}  // namespace

std::string perfetto_json(const std::vector<RankRow>& ranks, int calls) {
  const auto all = ranks.front().fused.calls.size();
  const std::size_t from =
      all - static_cast<std::size_t>(std::min<int>(calls, static_cast<int>(all) - 1));
  const double origin_us = ranks.front().fused.calls.at(from - 1).end_us;
  cli::TraceEvents events;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    RankTrace trace(events, static_cast<int>(r), origin_us);
    const auto& lines = ranks[r].fused.calls;
    for (std::size_t c = from; c < lines.size(); ++c)
      trace.add(lines[c], lines[c - 1].end_us, ranks[r].chunks);
  }
  return events.text();
}

}  // namespace tilelace::gpu_test
