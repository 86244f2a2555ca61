// SPDX-License-Identifier: Apache-2.0
#include "moe/simulate.h"

#include <fmt/core.h>

#include "core/check.h"
#include "moe/simulated.h"
#include "record.h"
#include "session.h"
#include "simulate/machine_file.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

/// Of other ops alone.
constexpr const char* kNotOfSimulate[] = {
    "--product", "--nodes",     "--method",   "--link", "--plan", "--tried", "--jitter",
    "--noise",   "--straggler", "--straggle", "--seed", "--svg",  "--rank",  "--trace"};

/// (token, slot) pairs of a routing that is drawn.
constexpr std::int64_t kMostPairs = 1 << 26;

MoeWork work_of(const MoeSizes& sizes, const MoeRequest& request, const MoeSimulation& o,
                int ranks) {
  MoeWork work = layer_work("simulate", sizes, request, o.m, o.dtype, ranks);
  require(work.layer.m * work.layer.top_k <= kMostPairs,
          "simulate: --m: got {} tokens of {} choices each, expected at most {} choices in all",
          work.layer.m, work.layer.top_k, kMostPairs);
  return work;
}

}  // namespace

int simulate_moe(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
                 const MoeSimulation& o) {
  refuse_options(command, kNotOfSimulate, sizes.ops);
  const sim::MachineModel machine = read_machine(o.machine);
  const MoeWork work = work_of(sizes, request, o, machine.ranks_of_node(o.ranks));
  sim::check_experts(machine, work.layer, work.ranks);
  RecordFile records(o.json);
  const bool shows = !o.quiet && !records.is_stdout();
  const Table table = layer_table(text_columns());
  if (shows)
    print_filled(fmt::format("{} ({}), {}", machine.name, machine.device, layer_text(work)));
  for (const std::string& op : work.ops) {
    if (shows) fmt::print("\n{}\n{}\n", op, table.header());
    for (const RoutingKind kind : work.routings)
      for (const std::int64_t m : work.sizes) {
        const SimulatedLayer row = simulate_layer(machine, work, op, kind, m);
        records.write(layer_record(machine, work, row));
        if (shows) fmt::print("{}\n", table.line(layer_cells(row)));
      }
  }
  if (shows) fmt::print("\n{}{}", table.legend(), filled(layer_notes(machine), text_columns()));
  return kDone;
}

}  // namespace tilelace::cli
