// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "core/architecture.h"
#include "core/check.h"
#include "machine.h"
#include "model_jobs.h"
#include "model_sizes.h"
#include "moe/plan.h"
#include "options.h"
#include "row_list.h"
#include "session.h"
#include "sizes.h"
#include "text_width.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"
#include "tuning_file.h"

namespace tilelace::cli {
namespace {

struct PlanCommand {
  ModelRequest model;
  std::string m, rows, dtype, link, backend = "cpu", architecture, tuning;
  std::vector<std::string> plans;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  int ranks = 2, workers = 0;
  bool ops = false;
  MoeRequest experts;
};

constexpr const char* kPlanExamples = R"(Examples:
  tilelace plan --model llama3.1-8b --tp 8 --m 4096 --link 25,5
      The plan of each product of a layer, why, and what was not taken.
  tilelace plan gemm_ar --tp 4 --m 1,4096 --n 4096 --k 4096 --plan path=fused,blocks=2
  tilelace plan ag_gemm --tp 4 --m 4096 --n 28672 --k 8192 --backend cuda
      The kernel plan on H200s; no GPU is needed.
  tilelace plan ag_moe,moe_rs --tp 2 --m 64,8192 --model mixtral-8x7b --backend cuda
      Both halves of a layer of experts: passes, tiles, collectives, scratch.
Nothing is run.
)";

std::string_view side_of(Extent extent, bool many) {
  switch (extent) {
    case Extent::one: return "1";
    case Extent::m: return "m";
    case Extent::m_r: return "m_r";
    case Extent::n: return many ? "n_i" : "n";
    case Extent::k: return "k";
  }
  return {};
}

/// "a [m_r, k], weight [n_i, k] each": inputs, or outputs.
std::string operands_of(const OpRow& op, bool outputs) {
  std::string text;
  for (const OperandRow& o : op.operands) {
    if (o.output() != outputs) continue;
    text +=
        fmt::format("{}{} [{}, {}]{}{}", text.empty() ? "" : ", ", o.name, side_of(o.rows, o.many),
                    side_of(o.cols, o.many), o.many ? " each" : "", o.optional ? " or none" : "");
  }
  return text;
}

/// What the ops are; --wide: the table that docs/ops.md has.
void print_ops() {
  const int characters = text_columns();
  for (const OpRow& op : op_table()) {
    if (characters == 0) break;
    for (const std::string& line : {fmt::format("{:<9} {}", op.name, op.help),
                                    fmt::format("{:<9} takes {}", "", operands_of(op, false)),
                                    fmt::format("{:<9} gives {}", "", operands_of(op, true))})
      fmt::print("{}\n", filled(line, characters, 16));
  }
  if (characters > 0) return;
  fmt::print("| op | what | takes | gives |\n|---|---|---|---|\n");
  for (const OpRow& op : op_table())
    fmt::print("| {} | {} | {} | {} |\n", op.name, op.help, operands_of(op, false),
               operands_of(op, true));
}

void set_products(const PlanCommand& o, Workload& work) {
  if (!o.rows.empty()) {
    require(o.model.ops.empty() && o.model.model.empty() && o.n.empty() && o.k == 0 && o.m.empty(),
            "--rows: the file has ops and sizes: leave out op, --model, --n, --k and --m");
    return load_rows(o.rows, o.ranks, work);
  }
  require(!o.m.empty(), "plan: --m is missing: give it, or --rows");
  ModelRequest request = o.model;
  if (request.layer.empty()) request.layer = "0";
  work.sizes = parse_sizes("--m", o.m);
  load_products("plan", request, o.n, o.k, o.ranks, work);
}

Workload workload_of(const PlanCommand& o) {
  Workload work;
  work.ranks = o.ranks;
  set_products(o, work);
  if (!o.dtype.empty()) work.dtype = parse_dtype(o.dtype);
  work.device = parse_device(o.backend);
  take_plans(o.plans, work);
  require(work.device == Device::cpu || (o.link.empty() && o.workers == 0),
          "--link, --workers: CPU ranks only, leave them out with --backend cuda");
  return work;
}

void take_tuning(const PlanCommand& o, Device device, Machine& machine) {
  if (device != Device::cuda) {
    require(o.tuning.empty(), "--tuning: GPU ranks only, add --backend cuda");
    return;
  }
  take_tables(o.tuning, o.ranks, machine);
}

std::string machine_text(const Machine& machine) {
  if (machine.device == Device::cuda) return fmt::format("{}", fmt::streamed(machine));
  return fmt::format("CPU ranks, {} worker{} each, {}, {:.3g} GFLOP/s each", machine.workers,
                     machine.workers == 1 ? "" : "s", link_text(machine),
                     machine.rank_flops_per_s * 1e-9);
}

int print_plans(const PlanCommand& o) {
  const Workload work = workload_of(o);
  const Link link = parse_link(o.link);
  CommunicatorOptions group;
  group.device = work.device;
  group.workers = o.workers;
  group.link_bytes_per_s = link.bytes_per_s;
  group.link_latency_s = link.latency_s;
  // Only planned: ranks would have to ask for it.
  group.multicast = std::ranges::any_of(work.jobs, [&](const Job& job) {
    return row_of(options_for(work.options, job).transport).needs_multicast();
  });
  Machine machine = machine_for(o.ranks, group);
  machine.architecture = parse_architecture(o.architecture, work.device);
  take_tuning(o, work.device, machine);
  check_workload(work, machine);
  print_filled("machine: " + machine_text(machine));
  std::size_t row = 0;
  for (const Job& job : work.jobs) {
    for (const std::int64_t m : work.sizes) {
      if (const std::size_t at = row++; !work.skip.empty() && work.skip[at]) continue;
      const Problem problem = problem_of(job.gemm, m, work.dtype);
      const Plan plan = work.plan.empty()
                            ? make_plan(problem, machine, options_for(work.options, job))
                            : candidates_of(work, job, m, machine).front().plan;
      fmt::print("\n");
      print_filled(fmt::format("{}{}", job.gemm.layer.empty() ? "" : job.gemm.layer + ": ",
                               fmt::streamed(problem)));
      if (!job.given.empty()) print_part("asked", job.given);
      print_part("plan", fmt::format("{}", fmt::streamed(plan)));
      print_part("why", plan.reason);
      for (const auto& other : plan.rejected) print_part("not", other);
      print_part("staging", fmt::format("{} per slot and rank, two slots: {}",
                                        show_bytes(plan.staging_bytes), plan.staging_formula));
    }
  }
  return kDone;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<PlanCommand>();
  auto* command = app.add_subcommand("plan", "Print which plan a call would get, and why");
  command->footer(kPlanExamples + ("\n" + std::string(plan_help())) + "\n" + model_help());
  command->add_option("op", o->model.ops,
                      names_of_ops() +
                          ", or a list (default: all); halves of a layer of experts: ag_moe, " +
                          moe_help());
  command->add_flag("--ops", o->ops, "Print what the ops are, their operands and shapes");
  command->add_option("--model", o->model.model,
                      "A model's layer: a name, config.json, folder, or sizes; see below");
  add_extent_options(*command, o->n, o->k);
  command->add_option("--tp", o->ranks, "Ranks")
      ->capture_default_str()
      ->check(whole_between(1, 64));
  command->add_option("--m", o->m, kSizesHelp);
  command->add_option("--rows", o->rows,
                      "A file of rows, instead of op, sizes and --m; see tilelace bench --help");
  command->add_option("--dtype", o->dtype,
                      names_of_dtypes() + " (default: the model's; bf16 without one)");
  add_backend_option(*command, o->backend);
  command->add_option(
      "--architecture", o->architecture,
      "GPU ranks: architecture, one of " + names_of_architectures() + " (default: the first)");
  command->add_option("--workers", o->workers, "Compute workers of each rank; 0: cores / ranks")
      ->capture_default_str()
      ->check(whole_between(0, 1024));
  command->add_option("--link", o->link,
                      "Emulated wire of each rank, as GB/s[,latency_us] (default: shared memory)");
  add_plan_option(*command, o->plans);
  command->add_option("--tuning", o->tuning,
                      "GPU ranks: a table of measured plans, or off (default: that of "
                      "TILELACE_TUNING, else those that are installed; docs/tuning.md)");
  add_wide_option(*command);
  add_expert_options(*command, o->experts);
  command->callback([o, command, &exit_code] {
    if (!o->model.ops.empty() && are_moe("plan", o->model.ops, true)) {
      exit_code = plan_moe(*command, {o->model.ops, o->model.model, o->n, o->k}, o->experts,
                           {o->m, o->dtype, o->backend, o->architecture, o->tuning, o->ranks});
      return;
    }
    refuse_moe_options("plan", *command);
    if (o->ops) return print_ops();
    exit_code = print_plans(*o);
  });
}

}  // namespace tilelace::cli
