// SPDX-License-Identifier: Apache-2.0
#include "moe/simulated.h"

#include <fmt/core.h>

#include "moe/layer_record.h"

namespace tilelace::cli {
namespace {

using sim::LayerPass;

/// Computed rows over real ones.
double padding_of(const sim::GroupedTime& t) { return t.rows > 0 ? t.computed_rows / t.rows : 1; }

Json product_json(const sim::GroupedTime& t) {
  return {{"tiles", t.shape.name},  {"padding", padding_of(t)}, {"bound", sim::name_of(t.bound())},
          {"tiles_us", t.tiles_us}, {"l2_us", t.l2_us},         {"memory_us", t.memory_us},
          {"power_us", t.power_us}};
}

}  // namespace

SimulatedLayer simulate_layer(const sim::MachineModel& machine, const MoeWork& work,
                              const std::string& op, RoutingKind kind, std::int64_t m) {
  MoeLayer layer = work.layer;
  layer.replicated = is_replicated(op);
  const auto rows = expert_rows(make_routing(kind, layer, m), layer, m);
  const auto collective = layer.replicated ? Collective::all_reduce : Collective::reduce_scatter;
  return {op, kind, m, imbalance(rows),
          sim::layer_time(machine, layer, m, work.ranks, collective, rows)};
}

Table layer_table(int characters) {
  std::vector<Column> columns{
      {"routing", 0, true},
      {"m", 6},
      {"q", 4, false, 2, "q: computed rows of the up product over real ones."},
      {"most", 5, false, 1, "most: rows of the fullest expert over the mean."}};
  for (std::size_t p = 0; p < sim::kLayerPasses; ++p)
    columns.push_back({std::string(sim::name_of(static_cast<LayerPass>(p))), 5});
  columns.push_back({"total", 6, false, 0, "total: of all passes, one after the other."});
  columns.push_back({"bound by", 20, true, 3, "bound by: what limits the products, up and down."});
  return {std::move(columns), "Predicted us of a layer.", characters};
}

std::vector<std::string> layer_cells(const SimulatedLayer& row) {
  const sim::LayerTime& t = row.time;
  std::vector<std::string> cells{std::string(name_of(row.routing)), std::to_string(row.m),
                                 fmt::format("{:.2f}", padding_of(t.up)),
                                 fmt::format("{:.2f}", row.imbalance)};
  for (const double us : t.us) cells.push_back(show_us(us));
  cells.push_back(show_us(t.total_us()));
  const auto up = sim::name_of(t.up.bound()), down = sim::name_of(t.down.bound());
  cells.push_back(up == down ? std::string(up) : fmt::format("{}, {}", up, down));
  return cells;
}

std::string layer_notes(const sim::MachineModel& m) {
  return fmt::format("Known error of {} for layers of experts: at most {:g} % ({}).\n", m.name,
                     m.experts.error_percent, m.experts.text);
}

std::string layer_record(const sim::MachineModel& machine, const MoeWork& work,
                         const SimulatedLayer& row) {
  const sim::LayerTime& t = row.time;
  Json r = layer_json(work, row.op, row.m);
  r["backend"] = "simulated";
  r["routing"] = name_of(row.routing);
  r["imbalance"] = row.imbalance;
  r["first_us"] = t.first_us();
  r["us"] = t.total_us();
  r["samples"] = nullptr;
  r["verified"] = nullptr;
  r["device"] = machine.device;
  r["machine"] = machine.name;
  for (std::size_t p = 0; p < sim::kLayerPasses; ++p)
    r["passes_us"][std::string(sim::name_of(static_cast<LayerPass>(p)))] = t.us.at(p);
  r["up"] = product_json(t.up);
  r["down"] = product_json(t.down);
  r["known_error"] = {{"most_percent", machine.experts.error_percent},
                      {"text", machine.experts.text}};
  return r.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tilelace::cli
