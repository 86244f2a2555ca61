// SPDX-License-Identifier: Apache-2.0
#include "simulate/report.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>

#include "commit.h"
#include "json_values.h"
#include "machine.h"
#include "text_width.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

template <class F>
int widest_in(const std::vector<SimulatedRow>& rows, F text) {
  std::vector<std::string> all;
  for (const SimulatedRow& r : rows) all.push_back(text(r));
  return widest(all);
}

/// "push 512": what moves the bytes, and how many rows at a time.
std::string plan_text(const Plan& p) {
  std::string text = fmt::format("{} {} {}", name_of(p.route), name_of(p.transport), p.chunk_rows);
  if (row_of(p.op).shares) text += fmt::format(" x{}", p.blocks);
  return text;
}

}  // namespace

Table simulate_table(const std::vector<SimulatedRow>& rows, int characters) {
  return Table(
      {{"layer", widest_in(rows, [](const auto& r) { return r.layer; }), true},
       {"op", 7, true},
       {"m", widest_in(rows, [](const auto& r) { return std::to_string(r.call.problem.m); })},
       {"n", widest_in(rows, [](const auto& r) { return std::to_string(r.n); })},
       {"k", widest_in(rows, [](const auto& r) { return std::to_string(r.k); }), false, 0,
        "m, n, k: unsharded."},
       {"GEMM", 6},
       {"coll.", 6, false, 2},
       {"unfus.", 6, false, 0, "unfus.: one after the other."},
       {"medium", 6, false, 3, "medium: a GEMM per shard."},
       {"fused", 6},
       {"ECT", 6, false, 8, "ECT: fused - GEMM."},
       {"E", 5, false, 4, "E: 1 - (fused - GEMM) / (unfus. - GEMM)."},
       {"E med", 5, false, 9, "E med: of medium."},
       {"speed", 5, false, 0, "speed: unfus. / fused."},
       {"roof", 4, false, 5, "roof: least time at peak rates / fused."},
       {"bound by", 12, true, 1,
        "bound by: what is busiest; latency: nothing is busy half of the time."},
       {"plan", widest_in(rows, [](const auto& r) { return plan_text(r.prediction.plan); }), true,
        6, "plan: route, transport, rows of a chunk, x super-blocks."}},
      "Predicted us (s: seconds).", characters);
}

std::vector<std::string> simulate_cells(const SimulatedRow& row) {
  const sim::Prediction& p = row.prediction;
  return {row.layer.empty() ? "-" : row.layer,
          std::string(name_of(row.call.problem.op)),
          std::to_string(row.call.problem.m),
          std::to_string(row.n),
          std::to_string(row.k),
          show_us(p.gemm_us),
          show_us(p.collective_us),
          show_us(p.unfused_us),
          show_us(p.medium_us),
          show_us(p.fused_us),
          show_us(p.ect_us()),
          show_efficiency(p.efficiency()),
          show_efficiency(p.medium_efficiency()),
          fmt::format("{:.2f}", p.speedup()),
          p.fused_us > 0 ? fmt::format("{:.0f}%", 100 * p.roof_us() / p.fused_us) : "-",
          p.bound(),
          plan_text(p.plan)};
}

std::string simulate_notes(const sim::MachineModel& m, const std::vector<SimulatedRow>& rows) {
  const bool faster = std::ranges::any_of(rows, [](const SimulatedRow& r) {
    const sim::Prediction& p = r.prediction;
    return p.unfused_us < p.gemm_us + p.collective_us;
  });
  return fmt::format("{}Known error of {}: median {:g} %, 90th percentile {:g} % ({}).\n",
                     faster ? "Unfus. can be less than GEMM + coll.: a collective draws little "
                              "power, so the clock rises.\n"
                            : "",
                     m.name, m.error.median_percent, m.error.p90_percent, m.error.text);
}

std::string tried_text(const SimulatedRow& row, int characters) {
  std::string text;
  for (const sim::Tried& t : row.prediction.tried) {
    const auto line = fmt::format("  {} {:>8} us  {}", t.plan == row.prediction.plan ? '*' : ' ',
                                  show_us(t.us), fmt::streamed(t.plan));
    text += filled(line, characters, 17) + '\n';
  }
  return text;
}

std::string simulate_record(const sim::MachineModel& machine, const SimulatedRow& row) {
  const sim::Prediction& p = row.prediction;
  Json r;
  r["schema"] = "tilelace.bench/1";
  r["op"] = name_of(row.call.problem.op);
  r["model"] = or_null(row.model);
  r["layer"] = or_null(row.layer);
  r["ranks"] = row.call.problem.ranks;
  r["m"] = row.call.problem.m;
  r["n"] = row.n;
  r["k"] = row.k;
  r["dtype"] = name_of(row.call.problem.dtype);
  r["backend"] = "simulated";
  r["mode"] = nullptr;
  r["gemm_us"] = p.gemm_us;
  r["collective_us"] = p.collective_us;
  r["unfused_us"] = p.unfused_us;
  r["medium_us"] = p.medium_us;
  r["fused_us"] = p.fused_us;
  r["path"] = name_of(p.plan.path);
  r["roof_us"] = p.roof_us();
  r["ect_us"] = p.ect_us();
  r["efficiency"] = or_null(p.efficiency());
  r["speedup"] = p.speedup();
  r["peers"] = Json::object();
  r["plan"] = fmt::format("{}", fmt::streamed(p.plan));
  r["transport"] = name_of(p.plan.transport);
  for (const char* key : {"error", "exact", "verified", "iterations", "spread"}) r[key] = nullptr;
  r["device"] = machine.device;
  r["driver"] = nullptr;
  r["commit"] = built_commit();
  r["time"] = utc_now();
  r["machine"] = machine.name;
  r["method"] = machine.method.name;
  r["nodes"] = row.call.problem.ranks / row.call.local;
  r["medium_efficiency"] = or_null(p.medium_efficiency());
  r["medium_plan"] = fmt::format("{}", fmt::streamed(p.medium_plan));
  r["bound"] = p.bound();
  r["gemm_bound"] = sim::name_of(p.gemm.bound());
  r["wire_us"] = p.fused.wire_us;
  r["network_us"] = p.fused.network_us;
  r["wait_us"] = p.fused.wait_us;
  r["known_error"] = {{"median_percent", machine.error.median_percent},
                      {"p90_percent", machine.error.p90_percent},
                      {"text", machine.error.text}};
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilelace::cli
