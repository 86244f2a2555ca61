// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"

namespace tilelace::gpu_test {
namespace {

using cuda::TraceEvent;
using cuda::TraceKind;

constexpr double kCoarseNs = 100;
constexpr std::size_t kFewStamps = 8;

/// An event at its time. `cycles`: since the CTA's first event.
struct Stamp {
  TraceKind kind;
  int lane, argument;
  double us, cycles;
};

/// us = at + each * cycles, by least squares.
struct Line {
  double at = 0, each = 0;
};

Line fit(const std::vector<Stamp>& stamps) {
  const auto count = static_cast<double>(stamps.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Stamp& s : stamps) x += s.cycles / count, y += s.us / count;
  for (const Stamp& s : stamps) {
    xx += (s.cycles - x) * (s.cycles - x);
    xy += (s.cycles - x) * (s.us - y);
  }
  const double each = xx > 0 ? xy / xx : 0;
  return {y - each * x, each};
}

std::vector<Stamp> stamps_of(const std::vector<TraceEvent>& events, std::uint64_t origin_ns) {
  std::vector<Stamp> stamps;
  for (const TraceEvent& e : events) {
    // The differences are small, whatever the clocks' zeros.
    const auto ns = static_cast<std::int64_t>(e.ns - origin_ns);
    const auto cycles = static_cast<std::int32_t>(e.cycles - events.front().cycles);
    stamps.push_back({e.kind(), e.lane(), e.argument(), static_cast<double>(ns) * 1e-3,
                      static_cast<double>(cycles)});
  }
  return stamps;
}

/// What a lane was doing until an event.
Doing ended_by(TraceKind kind, int lane) {
  switch (kind) {
    case TraceKind::ready: return Doing::before;
    case TraceKind::rows_here: return Doing::wait_rows;
    case TraceKind::terms_here: return Doing::wait_terms;
    case TraceKind::headers: return Doing::headers;
    case TraceKind::allowed:
    case TraceKind::admitted: return Doing::admission;
    case TraceKind::turn: return Doing::turn;
    case TraceKind::first: return Doing::operands;
    case TraceKind::multiplied: return Doing::multiply;
    case TraceKind::summed: return Doing::add_terms;
    case TraceKind::written: return lane == cuda::kCopyLane ? Doing::copy : Doing::send;
    case TraceKind::given: return Doing::publish;
    case TraceKind::stored: return Doing::store;
    case TraceKind::told: return Doing::share;
    case TraceKind::tiles_here: return Doing::wait_shared;
    case TraceKind::exit: return lane == cuda::kCopyLane ? Doing::copy : Doing::finish;
    case TraceKind::enter:
    case TraceKind::segment:
    case TraceKind::wait_rows:
    case TraceKind::flag:
    case TraceKind::loaded:
    case TraceKind::wait_terms:
    case TraceKind::term:
    case TraceKind::wait_tile: break;
  }
  return Doing::load;
}

/// Where a lane is while its stamps are read.
struct Lane {
  double last_us = 0;
  int tile = -1;
};

/// Events that begin something, or that tell of it, but end nothing.
constexpr bool ends_nothing(TraceKind kind) {
  return kind == TraceKind::segment || kind == TraceKind::wait_rows ||
         kind == TraceKind::wait_terms || kind == TraceKind::wait_tile;
}

class CtaReader {
 public:
  CtaReader(CtaLine& line, double us_a_cycle) : line_(line), us_a_cycle_(us_a_cycle) {}

  void read(const Stamp& s) {
    Lane& lane = lanes_.at(static_cast<std::size_t>(s.lane));
    if (s.kind == TraceKind::enter) {
      line_.multiprocessor = s.argument;
      line_.begin_us = line_.ready_us = s.us;
      for (Lane& l : lanes_) l.last_us = s.us;
      return;
    }
    // One that watches may outlast the work.
    if (s.lane != cuda::kWatchLane) line_.end_us = std::max(line_.end_us, s.us);
    if (s.kind == TraceKind::flag || s.kind == TraceKind::term) {
      if (s.lane == cuda::kWatchLane) {
        line_.watched.push_back({s.argument, s.us, true});
        return;
      }
      line_.landings.push_back({s.argument, s.us, s.us - lane.last_us > kThereUs});
      if (s.lane != cuda::kCopyLane) return;  // one of several
      add({Doing::wait_shared, s.lane, s.argument, lane.last_us, s.us, 0});
    } else if (s.kind == TraceKind::ready) {
      line_.ready_us = s.us;
      add({Doing::before, s.lane, -1, line_.begin_us, s.us, 0});
    } else if (s.kind == TraceKind::turn && lane.tile < 0) {
      begin_turns(s);
    } else if (!ends_nothing(s.kind)) {
      close(s, lane);
    }
    if (s.kind == TraceKind::segment || s.kind == TraceKind::turn) lane.tile = s.argument;
    lane.last_us = s.us;
  }

 private:
  static constexpr double kThereUs = 1.5;  ///< a wait for a flag that is there takes up to this

  /// A group's first turn: it may have waited for the kernel before, then for the other group.
  void begin_turns(const Stamp& s) {
    const bool ready = line_.ready_us > line_.begin_us;
    const double since = ready ? line_.ready_us : s.us;
    add({Doing::before, s.lane, -1, line_.begin_us, since, 0});
    add({Doing::turn, s.lane, s.argument, since, s.us, 0});
  }
  void close(const Stamp& s, const Lane& lane) {
    const double starved =
        s.kind == TraceKind::multiplied ? static_cast<double>(s.argument) * us_a_cycle_ : 0;
    const int tile = s.kind == TraceKind::turn ? s.argument : lane.tile;
    add({ended_by(s.kind, s.lane), s.lane, tile, lane.last_us, s.us, starved});
  }
  void add(const Span& span) {
    if (span.end_us > span.begin_us) line_.spans.push_back(span);
  }

  CtaLine& line_;
  double us_a_cycle_;
  std::array<Lane, cuda::kTraceLanes> lanes_;
};

CtaLine line_of(const std::vector<TraceEvent>& events, std::uint64_t origin_ns, bool coarse) {
  std::vector<Stamp> stamps = stamps_of(events, origin_ns);
  const Line line = stamps.size() < kFewStamps ? Line{} : fit(stamps);
  if (coarse && line.each > 0)
    for (Stamp& s : stamps) s.us = line.at + line.each * s.cycles;
  // Lanes take their places side by side: two events may have changed theirs.
  std::stable_sort(stamps.begin() + 1, stamps.end(),
                   [](const Stamp& x, const Stamp& y) { return x.us < y.us; });
  CtaLine cta;
  cta.mhz = line.each > 0 ? 1 / line.each : 0;
  CtaReader reader(cta, line.each);
  for (const Stamp& s : stamps) reader.read(s);
  return cta;
}

LaunchLine launch_line(const cuda::TracedLaunch& launch, std::uint64_t origin_ns, bool coarse) {
  LaunchLine line{
      launch.kernel, {}, std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const auto& events : launch.ctas) {
    line.ctas.push_back(line_of(events, origin_ns, coarse));
    line.begin_us = std::min(line.begin_us, line.ctas.back().begin_us);
    line.end_us = std::max(line.end_us, line.ctas.back().end_us);
  }
  require(!line.ctas.empty(), "trace: {}, got no events of a launch, expected some", launch.kernel);
  return line;
}

}  // namespace

std::string_view name_of(Doing doing) {
  constexpr std::array<std::string_view, kDoings> kNames{
      "products",   "send partial", "publish partial",  "store",     "publish result",
      "wait terms", "add terms",    "wait admission",   "wait rows", "wait operands",
      "wait turn",  "finish",       "wait shared tile", "copy",      "wait kernel before",
      "load",       "headers"};
  return kNames.at(static_cast<std::size_t>(doing));
}

double resolution_ns(const std::vector<cuda::TracedLaunch>& launches) {
  std::vector<std::uint64_t> stamps;
  for (const auto& launch : launches)
    for (const auto& cta : launch.ctas)
      for (const TraceEvent& e : cta) stamps.push_back(e.ns);
  std::sort(stamps.begin(), stamps.end());
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 1; i < stamps.size(); ++i)
    if (stamps[i] != stamps[i - 1]) least = std::min(least, stamps[i] - stamps[i - 1]);
  return static_cast<double>(least);
}

std::vector<CallLine> call_lines(const std::vector<cuda::TracedLaunch>& launches, int calls,
                                 std::uint64_t origin_ns) {
  require(calls > 0 && !launches.empty() && std::ssize(launches) % calls == 0,
          "trace: got {} launches, expected a multiple of {}", launches.size(), calls);
  const bool coarse = resolution_ns(launches) > kCoarseNs;
  const std::size_t each = launches.size() / static_cast<std::size_t>(calls);
  std::vector<CallLine> lines(static_cast<std::size_t>(calls));
  for (std::size_t i = 0; i < launches.size(); ++i) {
    CallLine& call = lines[i / each];
    call.launches.push_back(launch_line(launches[i], origin_ns, coarse));
    const double end = call.launches.back().end_us;
    call.end_us = call.launches.size() == 1 ? end : std::max(call.end_us, end);
  }
  return lines;
}

}  // namespace tilelace::gpu_test
