// SPDX-License-Identifier: Apache-2.0
#include "simulate/trace.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sim/fabric.h"

namespace tilelace::cli {
namespace {

using Json = nlohmann::ordered_json;
using sim::SpanKind;

std::string what(const sim::Span& s) {
  switch (s.kind) {
    case SpanKind::compute: return fmt::format("tile of shard {}", s.peer);
    case SpanKind::reduce: return "add partials";
    case SpanKind::wait: return "wait";
    case SpanKind::copy: return fmt::format("copy, rank {}", s.peer);
    default: return fmt::format("from rank {}", s.peer);
  }
}

Json named(const char* kind, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::string trace_json(const sim::MachineModel& machine, const SimulatedRow& row) {
  const int ranks = row.call.problem.ranks;
  const int wires = ranks;  // the process of the wires comes after the ranks
  const sim::Fabric fabric(machine, ranks, row.call.local);
  Json events = Json::array();
  for (int r = 0; r < ranks; ++r) {
    events.push_back(named("process_name", r, 0, fmt::format("rank {}", r)));
  }
  events.push_back(named("process_name", wires, 0, "wires"));
  std::set<std::pair<int, int>> seen;
  for (const sim::Span& s : row.prediction.fused.spans) {
    const bool wire = s.kind == SpanKind::wire;
    const int process = wire ? wires : s.rank;
    const int thread = wire ? s.rank : s.lane + 1;
    if (seen.insert({process, thread}).second) {
      events.push_back(named("thread_name", process, thread,
                             wire         ? fabric.wires().at(static_cast<std::size_t>(s.rank)).name
                             : s.lane < 0 ? "copy"
                                          : fmt::format("worker {}", s.lane)));
    }
    events.push_back({{"ph", "X"},
                      {"name", what(s)},
                      {"pid", process},
                      {"tid", thread},
                      {"ts", s.begin_us},
                      {"dur", s.end_us - s.begin_us}});
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace tilelace::cli
