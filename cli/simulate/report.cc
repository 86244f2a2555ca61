// SPDX-License-Identifier: Apache-2.0
#include "simulate/report.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>

#include "json_values.h"
#include "machine.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

template <class F>
int widest(const std::vector<SimulatedRow>& rows, F text) {
  std::size_t width = 0;
  for (const SimulatedRow& r : rows) width = std::max(width, std::string(text(r)).size());
  return static_cast<int>(width);
}

/// "push 512": what moves the bytes, and how many rows at a time.
std::string plan_text(const Plan& p) {
  std::string text = fmt::format("{} {} {}", name_of(p.route), name_of(p.transport), p.chunk_rows);
  if (row_of(p.op).shares) text += fmt::format(" x{}", p.blocks);
  return text;
}

}  // namespace

std::string show_share(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.2f}", *value) : "-";
}

Table simulate_table(const std::vector<SimulatedRow>& rows) {
  return Table(
      {{"layer", widest(rows, [](const auto& r) { return r.layer; }), true},
       {"op", 7, true},
       {"m", widest(rows, [](const auto& r) { return std::to_string(r.call.problem.m); })},
       {"n", widest(rows, [](const auto& r) { return std::to_string(r.n); })},
       {"k", widest(rows, [](const auto& r) { return std::to_string(r.k); })},
       {"GEMM", 6},
       {"coll.", 6},
       {"unfus.", 6},
       {"medium", 6},
       {"fused", 6},
       {"ECT", 6},
       {"E", 5},
       {"E med", 5},
       {"speed", 5},
       {"roof", 4},
       {"bound by", 12, true},
       {"plan", widest(rows, [](const auto& r) { return plan_text(r.prediction.plan); }), true}});
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
          show_share(p.efficiency()),
          show_share(p.medium_efficiency()),
          fmt::format("{:.2f}", p.speedup()),
          fmt::format("{:.0f}%", 100 * p.roof_us() / p.fused_us),
          p.bound(),
          plan_text(p.plan)};
}

std::string simulate_legend(const sim::MachineModel& m) {
  return fmt::format(
      "Predicted times in us (s where marked). m, n, k: of the unsharded product. GEMM, coll.: the "
      "library's, alone.\n"
      "unfus.: one after the other. medium: a product a shard. fused: the fastest plan played. "
      "ECT = fused - GEMM.\n"
      "E = 1 - ECT / (unfused - GEMM), E med the same of medium. speed = unfused / fused. "
      "roof: max(GEMM, wire) / fused.\n"
      "bound by: what the fused call cannot be faster than; latency: no resource is busy half of "
      "the time.\n"
      "plan: route, transport, rows of a chunk (gemm_ar: x super-blocks).\n"
      "Known error of {}: median {:g} %, 90th percentile {:g} % ({}).\n",
      m.name, m.error.median_percent, m.error.p90_percent, m.error.text);
}

std::string tried_text(const SimulatedRow& row) {
  std::string text;
  for (const sim::Tried& t : row.prediction.tried) {
    text += fmt::format("  {} {:>8} us  {}\n", t.plan == row.prediction.plan ? '*' : ' ',
                        show_us(t.us), fmt::streamed(t.plan));
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
  r["commit"] = TILELACE_COMMIT;
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
