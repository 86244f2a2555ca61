// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "core/check.h"
#include "machine.h"
#include "model_jobs.h"
#include "model_sizes.h"
#include "moe/simulate.h"
#include "options.h"
#include "progress.h"
#include "record.h"
#include "session.h"
#include "simulate/figure.h"
#include "simulate/machine_file.h"
#include "simulate/report.h"
#include "simulate/trace.h"
#include "sizes.h"
#include "text_file.h"
#include "text_width.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cli {
namespace {

struct SimulateOptions {
  ModelRequest model;
  std::string machine, method, m, dtype, link, json, svg, trace;
  std::vector<std::string> plans;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  int local = 0, nodes = 1, rank = 0, straggler = -1;
  double straggle = 1.5, jitter_us = 0, noise = 0;
  std::uint64_t seed = 1;
  bool tried = false, quiet = false;
  MoeRequest experts;
};

constexpr const char* kSimulateExamples = R"(Examples:
  tilelace simulate --machine h200x4 --model llama2-70b --tp 4 --m 512:16384:2
      Times of GEMM, collective, unfused, medium and fused calls, and what bounds them.
  tilelace simulate gemm_rs --machine a100-pcie-x8 --model gpt3-175b --product down --tp 8 \
           --m 4096 --svg rs.svg
      The timeline of one call: which multiprocessor computes or waits when, which wire is busy.
  tilelace simulate ag_gemm --machine h800-nvlink-x8 --tp 8 --nodes 4 --m 8192 --n 49152 --k 12288
      32 ranks over four nodes, a product without a model.
  tilelace simulate ag_gemm --machine h200x8 --model qwen3-32b --tp 8 --m 2048 \
           --plan chunk=64,transport=push --plan chunk=256,transport=store --tried
      What several plans would take, each of them printed.
  tilelace simulate gemm_ar --machine h200x4 --model qwen3-32b --tp 4 --m 4096 \
           --straggler 1 --jitter 20
      One rank takes 1.5 times as long, and ranks begin up to 20 us apart.
  tilelace simulate moe_rs --machine h200x2 --model mixtral-8x7b --tp 2 --m 64:8192:8 \
           --routing uniform,hot
      A layer of experts, pass by pass, for several routings.
No GPU is needed. Each report says the known error of its machine file; docs/simulate.md says what
is modelled.
)";

constexpr const char* kSimulatePlans =
    R"(--plan KEY=VALUE[,KEY=VALUE] fixes choices of fused calls; simulate tries the others:
  route=mesh|ring|two_level            who sends to whom
  transport=push|pull|store            copy engines write, or read; multiprocessors write
  chunk=ROWS                           rows of one transfer
  tile_m=ROWS,tile_n=COLUMNS           what a multiprocessor computes at a time
  blocks=N                             gemm_ar: super-blocks of rows
Of several --plan the fastest is the row that is printed; --tried prints all of them.
)";

/// Of one --plan, what can be played. Errors: usage.
sim::Choices choices_of(const std::string& plan) {
  require(!is_printed_plan(plan), "--plan: simulate takes KEY=VALUE, not a printed plan");
  const PlanOptions o = parse_plan_options("--plan", plan);
  const PlanOptions plain;
  const auto refuse = [](const char* key, std::string_view why) {
    raise(ErrorKind::usage, "--plan {}: {}", key, why);
  };
  if (o.path != plain.path)
    refuse("path", "simulate always shows fused, medium and unfused: remove path=... from --plan");
  if (o.partials)
    refuse("partials", "simulate has only partial sums of the operands' type: leave out partials");
  if (o.straddle)
    refuse("straddle", "simulate does not model tiles that straddle shards: leave out straddle");
  if (o.local_ranks)
    refuse("local_ranks", "simulate takes the ranks of a node from --tp: leave out local_ranks");
  if (o.tile_m.has_value() != o.tile_n.has_value())
    refuse("tile_m, tile_n", "simulate needs both of them or none");
  if (o.transport && tilelace::row_of(*o.transport).gpus)
    refuse("transport", "simulate supports only push, pull and store");
  sim::Choices c{o.route, o.transport, o.chunk_rows, o.blocks, {}};
  if (o.tile_m) c.tile = sim::Tile{*o.tile_m, *o.tile_n};
  return c;
}

std::vector<sim::Choices> all_choices(const std::vector<std::string>& plans) {
  if (plans.empty()) return {sim::Choices()};
  std::vector<sim::Choices> all;
  for (const std::string& plan : plans) all.push_back(choices_of(plan));
  return all;
}

class Simulation {
 public:
  explicit Simulation(const SimulateOptions& o)
      : o_(o), records_(o.json), machine_(read_machine(o.machine)) {
    if (!o.method.empty()) read_method(o.method, machine_);
    if (!o.link.empty()) {
      const Link link = parse_link(o.link);
      machine_.links.push_gbps = machine_.links.pull_gbps = machine_.links.store_gbps =
          machine_.links.store_worker_gbps = machine_.collectives.wire_gbps =
              link.bytes_per_s * 1e-9;
      machine_.links.latency_us = link.latency_s * 1e6;
    }
    local_ = machine_.ranks_of_node(o.local);
    set_work();
    disturbance_ = {o.jitter_us, o.noise, o.straggler, o.straggle, o.seed};
    require(o.straggler < work_.ranks, "--straggler: got {}, expected a rank, 0 to {}", o.straggler,
            work_.ranks - 1);
    require(o.rank < work_.ranks, "--rank: got {}, expected 0 to {}", o.rank, work_.ranks - 1);
  }

  int run() {
    const bool pictures = !o_.svg.empty() || !o_.trace.empty();
    const auto choices = all_choices(o_.plans);
    const std::size_t total = work_.jobs.size() * work_.sizes.size();
    require(!pictures || total == 1,
            "--svg and --trace show one call, got {}: give one op and one --m, and with a model "
            "one --product",
            total);
    Progress progress(static_cast<std::int64_t>(total), o_.quiet);
    const double begin = seconds_now();
    for (const Job& job : work_.jobs) {
      for (const std::int64_t m : work_.sizes) {
        rows_.push_back(row_of(job, m, choices, pictures, [&](std::size_t plan, std::size_t all) {
          progress.set(static_cast<std::int64_t>(rows_.size()),
                       fmt::format("{} plan {}/{}", job.gemm.layer, plan, all));
          progress.draw();
        }));
      }
    }
    progress.clear();
    print(seconds_now() - begin);
    if (!o_.svg.empty()) write_text("--svg", o_.svg, figure_svg(machine_, rows_[0], o_.rank));
    if (!o_.trace.empty()) write_text("--trace", o_.trace, trace_json(machine_, rows_[0]));
    return kDone;
  }

 private:
  void set_work() {
    ModelRequest request = o_.model;
    request.layer = "0";
    work_.ranks = local_ * o_.nodes;
    load_products("simulate", request, o_.n, o_.k, work_.ranks, work_);
    if (!o_.model.layer.empty()) keep_product(o_.model.layer);
    if (!o_.dtype.empty()) work_.dtype = parse_dtype(o_.dtype);
    work_.sizes = parse_sizes("--m", o_.m);
  }

  void keep_product(const std::string& product) {
    std::vector<std::string> names;
    for (const Job& job : work_.jobs)
      if (std::ranges::count(names, job.gemm.layer) == 0) names.push_back(job.gemm.layer);
    require(std::ranges::count(names, product) > 0, "--product: got \"{}\", expected {}", product,
            fmt::join(names, ", "));
    std::erase_if(work_.jobs, [&](const Job& job) { return job.gemm.layer != product; });
  }

  SimulatedRow row_of(const Job& job, std::int64_t m, const std::vector<sim::Choices>& choices,
                      bool pictures, const sim::OnPlan& on_plan) {
    SimulatedRow row;
    row.model = work_.model;
    row.layer = job.gemm.layer;
    row.n = sum_of(job.gemm.full_n);
    row.k = job.gemm.full_k;
    row.call = sim::call_of(problem_of(job.gemm, m, work_.dtype), local_);
    check_call(machine_, row.call);
    sim::Candidates plans;
    const auto join = [](std::vector<Plan>& all, const std::vector<Plan>& more) {
      for (const Plan& p : more) {
        if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
      }
    };
    for (const sim::Choices& c : choices) {
      join(plans.fused, fused_plans(machine_, row.call, c));
      join(plans.medium, medium_plans(machine_, row.call, c));
    }
    row.prediction = sim::predict(machine_, row.call, plans, disturbance_, pictures, on_plan);
    return row;
  }

  void print(double seconds) {
    for (const SimulatedRow& row : rows_) records_.write(simulate_record(machine_, row));
    if (o_.quiet || records_.is_stdout()) return;
    const int characters = text_columns();
    const std::string head = fmt::format(
        "{}{} ({}), {} rank{}{}, {}, method {}", work_.model.empty() ? "" : work_.model + " on ",
        machine_.name, machine_.device, work_.ranks, work_.ranks == 1 ? "" : "s",
        o_.nodes > 1 ? fmt::format(" over {} nodes", o_.nodes) : "", name_of(work_.dtype),
        machine_.method.name);
    const Table table = simulate_table(rows_, characters);
    fmt::print("{}\n\n{}\n", filled(head, characters), table.header());
    for (const SimulatedRow& row : rows_) {
      fmt::print("{}\n", table.line(simulate_cells(row)));
      if (o_.tried) fmt::print("{}", tried_text(row, characters));
    }
    fmt::print("\n{}{}{} row{} simulated in {:.1f} s\n", table.legend(),
               filled(simulate_notes(machine_, rows_), characters), rows_.size(),
               rows_.size() == 1 ? "" : "s", seconds);
  }

  const SimulateOptions& o_;
  RecordFile records_;
  sim::MachineModel machine_;
  int local_ = 0;  ///< ranks of a node
  Workload work_;
  sim::Disturbance disturbance_;
  std::vector<SimulatedRow> rows_;
};

void add_product_options(CLI::App& command, SimulateOptions& o) {
  command.add_option(
      "op", o.model.ops,
      names_of_ops() + ", or a list (default: all); a layer of experts: " + moe_help());
  command.add_option("--machine", o.machine, "A name below or a machine file")->required();
  command.add_option("--model", o.model.model,
                     "A model's layer: a name, config.json, folder, or sizes; see below");
  command
      .add_option("--product", o.model.layer,
                  "Only this product of the layer: qkv, attn_out, gate_up or up, down")
      ->needs("--model");
  add_extent_options(command, o.n, o.k);
  command.add_option("--m", o.m, kSizesHelp)->required();
  command.add_option("--tp", o.local, "Ranks of a node (default: all of the machine's)")
      ->check(whole_between(1, 1024));
  command.add_option("--nodes", o.nodes, "Nodes; --tp ranks on each")
      ->capture_default_str()
      ->check(whole_between(1, 1024));
  command.add_option("--dtype", o.dtype,
                     names_of_gpu_dtypes() + " (default: the model's; bf16 without one)");
  command.add_option("--method", o.method,
                     "Costs of another implementation, a name below or a method file");
  command.add_option("--link", o.link, "Other wires inside a node, as GB/s[,latency_us]");
}

void add_plan_options(CLI::App& command, SimulateOptions& o) {
  add_plan_option(command, o.plans);
  command.add_flag("--tried", o.tried, "Also print every plan that was played");
  command.add_option("--jitter", o.jitter_us, "Ranks begin up to N us apart")
      ->check(number_between(0, 1e6));
  command.add_option("--noise", o.noise, "Tiles take up to this share longer (0.1: 10 %)")
      ->check(number_between(0, 10));
  command.add_option("--straggler", o.straggler, "A rank whose tiles take longer")
      ->check(whole_between(0, 1023));
  command.add_option("--straggle", o.straggle, "Factor by which its tiles take longer, from 1")
      ->capture_default_str()
      ->check(number_between(1, 100));
  command.add_option("--seed", o.seed, "Seed of jitter and noise")->capture_default_str();
  command.add_option("--json", o.json,
                     "Write one record per line to this file; - is standard output");
  command.add_option("--svg", o.svg, "Write the timeline of the fused call as a picture");
  command.add_option("--rank", o.rank, "Rank whose multiprocessors the picture shows")
      ->capture_default_str()
      ->check(whole_between(0, 1023));
  command.add_option("--trace", o.trace, "Write the timeline for Perfetto (ui.perfetto.dev)");
  add_wide_option(command);
  command.add_flag("--quiet", o.quiet, "Print nothing");
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<SimulateOptions>();
  auto* command =
      app.add_subcommand("simulate", "Predict a call on a machine that is not here, and show why");
  command->footer(fmt::format(
      "{}\n{}\n{}\nMethods: {}\n{}", kSimulateExamples, kSimulatePlans,
      filled(fmt::format("Machines: {}", fmt::join(machine_names(), ", ")), kColumns, 10),
      fmt::join(method_names(), ", "), model_help()));
  add_product_options(*command, *o);
  add_plan_options(*command, *o);
  add_expert_options(*command, o->experts);
  add_routing_option(*command, o->experts);
  command->callback([o, command, &exit_code] {
    if (!o->model.ops.empty() && are_moe("simulate", o->model.ops)) {
      exit_code = simulate_moe(*command, {o->model.ops, o->model.model, o->n, o->k}, o->experts,
                               {o->machine, o->m, o->dtype, o->json, o->local, o->quiet});
      return;
    }
    refuse_moe_options("simulate", *command);
    exit_code = Simulation(*o).run();
  });
}

}  // namespace tilelace::cli
