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
#include "progress.h"
#include "record.h"
#include "session.h"
#include "simulate/figure.h"
#include "simulate/machine_file.h"
#include "simulate/report.h"
#include "simulate/trace.h"
#include "text_file.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cli {
namespace {

struct SimulateOptions {
  ModelRequest model;
  std::string machine, method, m, dtype, link, chunk, transport, route, tile, json, svg, trace;
  std::int64_t n = 0, k = 0;
  int local = 8, nodes = 1, blocks = 0, rank = 0, straggler = -1;
  double straggle = 1.5, jitter_us = 0, noise = 0;
  std::uint64_t seed = 1;
  bool tried = false, quiet = false;
};

constexpr const char* kSimulateExamples = R"(Examples:
  tilelace simulate --machine h200x4 --model llama2-70b --tp 4 --m 512:16384:2
      GEMM, collective, unfused, medium-grained and fused times of each product, and what bounds it.
  tilelace simulate gemm_rs --machine a100-pcie-x8 --model gpt3-175b --product down --tp 8 \
           --m 4096 --svg rs.svg
      The timeline of one call: which multiprocessor computes or waits when, which wire is busy.
  tilelace simulate ag_gemm --machine h800-nvlink-x8 --tp 8 --nodes 4 --m 8192 --n 49152 --k 12288
      32 ranks over four nodes, a product without a model.
  tilelace simulate ag_gemm --machine h200x8 --model qwen3-32b --tp 8 --m 2048 \
           --chunk 32,64,128,256 --transport push,store --tried
      Every combination, as a sweep.
  tilelace simulate gemm_ar --machine h200x4 --model qwen3-32b --tp 4 --m 4096 --straggler 1 --jitter 20
      One rank at two thirds of its speed, ranks that begin up to 20 us apart.
No GPU is needed: the schedules are those that ranks run, time is that of the machine file. Every
report states the known error of its machine file; docs/simulate.md says what is modelled.
)";

template <class T>
std::vector<std::optional<T>> sweep_of(const std::string& what, const std::string& text,
                                       const std::vector<T>& values) {
  std::vector<std::optional<T>> all;
  if (text.empty()) return {std::nullopt};
  for (const std::string& part : split_list(what, text)) {
    std::vector<std::string_view> names;
    for (const T v : values) {
      names.push_back(name_of(v));
      if (part == name_of(v)) all.push_back(v);
    }
    require(!all.empty() && name_of(*all.back()) == part, "{}: got \"{}\", expected {}", what, part,
            fmt::join(names, ", "));
  }
  return all;
}

/// "128x256"
std::optional<sim::Tile> tile_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto side = [](std::string_view number) {
    return static_cast<int>(parse_number("--tile", number, 1, 4096));
  };
  const std::string_view all = text;
  return sim::Tile{side(all.substr(0, cross)), side(all.substr(std::min(cross + 1, all.size())))};
}

/// Every combination of the lists that were given.
std::vector<sim::Choices> choices_of(const SimulateOptions& o) {
  std::vector<std::optional<std::int64_t>> chunks{std::nullopt};
  if (!o.chunk.empty()) {
    chunks.clear();
    for (const auto c : parse_sizes("--chunk", o.chunk)) {
      require(c >= 1, "--chunk: got {}, expected at least 1", c);
      chunks.emplace_back(c);
    }
  }
  std::vector<Transport> simulated;
  for (const TransportRow& row : transport_table())
    if (!row.gpus) simulated.push_back(row.transport);
  std::vector<sim::Choices> all;
  for (const auto& route : sweep_of<RouteKind>(
           "--route", o.route, {RouteKind::mesh, RouteKind::ring, RouteKind::two_level})) {
    for (const auto& transport : sweep_of("--transport", o.transport, simulated)) {
      for (const auto& chunk : chunks) {
        sim::Choices c{route, transport, chunk, std::nullopt, tile_of(o.tile)};
        if (o.blocks > 0) c.blocks = o.blocks;
        all.push_back(c);
      }
    }
  }
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
    set_work();
    disturbance_ = {o.jitter_us, o.noise, o.straggler, o.straggle, o.seed};
    require(o.straggler < work_.ranks, "--straggler: got {}, expected a rank, 0 to {}", o.straggler,
            work_.ranks - 1);
    require(o.rank < work_.ranks, "--rank: got {}, expected 0 to {}", o.rank, work_.ranks - 1);
  }

  int run() {
    const bool pictures = !o_.svg.empty() || !o_.trace.empty();
    const auto choices = choices_of(o_);
    const std::size_t total = work_.jobs.size() * work_.sizes.size();
    require(!pictures || total == 1,
            "simulate: --svg and --trace: got {} products, expected one: name one op and one --m, "
            "and of a model one --product",
            total);
    Progress progress(static_cast<std::int64_t>(total), o_.quiet);
    const double begin = seconds_now();
    for (const Job& job : work_.jobs) {
      for (const std::int64_t m : work_.sizes) {
        progress.set(static_cast<std::int64_t>(rows_.size()), job.gemm.layer);
        progress.draw();
        rows_.push_back(row_of(job, m, choices, pictures));
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
    require(o_.model.model.empty() != (o_.n == 0 && o_.k == 0) && (o_.n == 0) == (o_.k == 0),
            "simulate: sizes: got {}, expected either --model or both --n and --k",
            o_.model.model.empty() ? "not both of --n and --k" : "--model and --n or --k");
    work_.ranks = o_.local * o_.nodes;
    if (!o_.model.model.empty()) {
      ModelRequest request = o_.model;
      request.layer = "0";
      load_model(request, work_.ranks, work_);
      if (!o_.model.layer.empty()) {
        std::erase_if(work_.jobs, [&](const Job& j) { return j.gemm.layer != o_.model.layer; });
        require(!work_.jobs.empty(),
                "--product: got \"{}\", expected qkv, attn_out, gate_up, up or down, as the model "
                "and the op have",
                o_.model.layer);
      }
    } else {
      for (const Op op : parse_ops(o_.model.ops))
        work_.jobs.push_back({plain_gemm(op, {o_.n}, o_.k, work_.ranks), 0});
    }
    if (!o_.dtype.empty()) work_.dtype = parse_dtype(o_.dtype);
    work_.sizes = parse_sizes("--m", o_.m);
  }

  SimulatedRow row_of(const Job& job, std::int64_t m, const std::vector<sim::Choices>& choices,
                      bool pictures) {
    SimulatedRow row;
    row.model = work_.model;
    row.layer = job.gemm.layer;
    row.n = sum_of(job.gemm.full_n);
    row.k = job.gemm.full_k;
    row.call = sim::call_of(problem_of(job.gemm, m, work_.dtype), o_.local);
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
    row.prediction = sim::predict(machine_, row.call, plans, disturbance_, pictures);
    return row;
  }

  void print(double seconds) {
    for (const SimulatedRow& row : rows_) records_.write(simulate_record(machine_, row));
    if (o_.quiet || records_.is_stdout()) return;
    fmt::print("{}{} ({}), {} rank{}{}, {}, method {}\n\n",
               work_.model.empty() ? "" : work_.model + " on ", machine_.name, machine_.device,
               work_.ranks, work_.ranks == 1 ? "" : "s",
               o_.nodes > 1 ? fmt::format(" over {} nodes", o_.nodes) : "", name_of(work_.dtype),
               machine_.method.name);
    const Table table = simulate_table(rows_);
    fmt::print("{}\n", table.header());
    for (const SimulatedRow& row : rows_) {
      fmt::print("{}\n", table.line(simulate_cells(row)));
      if (o_.tried) fmt::print("{}", tried_text(row));
    }
    fmt::print("\n{}{} rows simulated in {:.1f} s\n", simulate_legend(machine_), rows_.size(),
               seconds);
  }

  const SimulateOptions& o_;
  RecordFile records_;
  sim::MachineModel machine_;
  Workload work_;
  sim::Disturbance disturbance_;
  std::vector<SimulatedRow> rows_;
};

void add_product_options(CLI::App& command, SimulateOptions& o) {
  command.add_option("op", o.model.ops, names_of_ops() + ", or a list (default: all)");
  command.add_option("--machine", o.machine, "A name below or a machine file")->required();
  command.add_option("--model", o.model.model,
                     "Sizes of a model's layer: a name below, a config.json or a folder");
  command
      .add_option("--product,--layer", o.model.layer,
                  "Only this product of the layer: qkv, attn_out, gate_up (or up), down")
      ->needs("--model");
  command.add_option("--n", o.n, "Columns of the unsharded product")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--k", o.k, "Terms of each of its sums")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--m", o.m, "Rows (tokens): a list 1,7,128 or a range begin:end:factor")
      ->required();
  command.add_option("--tp", o.local, "Ranks of a node")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command.add_option("--nodes", o.nodes, "Nodes; the group has --tp times as many ranks, to 1024")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command.add_option("--dtype", o.dtype,
                     names_of_gpu_dtypes() + " (default: the model's; bf16 without one)");
  command.add_option("--method", o.method,
                     "Costs of another implementation: a name below or a method file");
  command.add_option("--link", o.link, "Other wires inside a node: GB/s[,latency_us]");
}

void add_plan_options(CLI::App& command, SimulateOptions& o) {
  command.add_option("--chunk", o.chunk, "Rows of a transfer: a list or a range to sweep");
  command.add_option("--route,--order", o.route, "mesh, ring, two_level: a list to sweep");
  command.add_option("--transport", o.transport, "push, pull, store: a list to sweep");
  command.add_option("--tile", o.tile, "ROWSxCOLUMNS of the fused tiles (default: several tried)");
  command.add_option("--blocks", o.blocks, "Row super-blocks of gemm_ar")->check(CLI::Range(1, 64));
  command.add_flag("--tried", o.tried, "Also print every plan tried");
  command.add_option("--jitter", o.jitter_us, "Ranks begin up to this many us apart")
      ->check(number_between(0, 1e6));
  command.add_option("--noise", o.noise, "A tile takes up to this share longer (0.1: 10 %)")
      ->check(number_between(0, 10));
  command.add_option("--straggler", o.straggler, "A rank whose tiles take longer")
      ->check(CLI::Range(0, 1023));
  command.add_option("--straggle", o.straggle, "So many times as long")
      ->capture_default_str()
      ->check(number_between(0.1, 100));
  command.add_option("--seed", o.seed, "Of jitter and noise")->capture_default_str();
  command.add_option("--json", o.json, "Write a record a row to this file (- for standard output)");
  command.add_option("--svg", o.svg, "Write the fused call's timeline as a picture");
  command.add_option("--rank", o.rank, "The rank whose multiprocessors the picture shows")
      ->capture_default_str()
      ->check(CLI::Range(0, 1023));
  command.add_option("--trace", o.trace, "Write it for Perfetto (ui.perfetto.dev)");
  command.add_flag("--quiet", o.quiet, "Print nothing");
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<SimulateOptions>();
  auto* command =
      app.add_subcommand("simulate", "Predict a call on a machine you may not have, and show why");
  command->footer(fmt::format("{}\nMachines: {}\nMethods: {}\nModels: {}\n", kSimulateExamples,
                              fmt::join(machine_names(), ", "), fmt::join(method_names(), ", "),
                              model_names()));
  add_product_options(*command, *o);
  add_plan_options(*command, *o);
  command->callback([o, &exit_code] { exit_code = Simulation(*o).run(); });
}

}  // namespace tilelace::cli
