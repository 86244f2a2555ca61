// SPDX-License-Identifier: Apache-2.0
#include "simulate/trace.h"

#include <fmt/core.h>

#include <set>

#include "sim/fabric.h"
#include "simulate/trace_events.h"

namespace tilelace::cli {
namespace {

using sim::SpanKind;

std::string what(const sim::Span& s) {
  switch (s.kind) {
    case SpanKind::compute: return fmt::format("tile of shard {}", s.peer);
    case SpanKind::reduce: return "add partials";
    case SpanKind::wait: return "wait";
    case SpanKind::copy: return fmt::format("copy, rank {}", s.peer);
    case SpanKind::wire: return fmt::format("from rank {}", s.peer);
  }
  return "?";
}

}  // namespace

std::string trace_json(const sim::MachineModel& machine, const SimulatedRow& row) {
  const int ranks = row.call.problem.ranks;
  const int wires = ranks;  // the process of the wires comes after the ranks
  const sim::Fabric fabric(machine, ranks, row.call.local);
  TraceEvents events;
  for (int r = 0; r < ranks; ++r) events.process(r, fmt::format("rank {}", r));
  events.process(wires, "wires");
  std::set<std::pair<int, int>> seen;
  for (const sim::Span& s : row.prediction.fused.spans) {
    const bool wire = s.kind == SpanKind::wire;
    const int process = wire ? wires : s.rank;
    const int thread = wire ? s.rank : s.lane + 1;
    if (seen.insert({process, thread}).second) {
      events.thread(process, thread,
                    wire         ? fabric.wires().at(static_cast<std::size_t>(s.rank)).name
                    : s.lane < 0 ? "copy"
                                 : fmt::format("worker {}", s.lane));
    }
    events.span(process, thread, what(s), s.begin_us, s.end_us - s.begin_us);
  }
  return events.text();
}

}  // namespace tilelace::cli
