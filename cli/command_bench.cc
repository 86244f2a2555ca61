// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "baselines.h"
#include "collectives/command.h"
#include "collectives/work.h"
#include "commands.h"
#include "core/check.h"
#include "model_jobs.h"
#include "model_sizes.h"
#include "moe/command.h"
#include "moe/work.h"
#include "options.h"
#include "row_list.h"
#include "session.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

struct BenchOptions {
  ModelRequest model;
  SessionOptions session;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  std::string kinds, baselines, rows;
  int candidates = 0;
  double minutes = 0;
  bool brief = false;
  CollectiveRequest collectives;
  MoeRequest experts;
};

constexpr const char* kBenchExamples = R"(Examples:
  tilelace bench ag_gemm --tp 4 --m 128:2048:2 --n 4096 --k 1024
      m = 128, 256, ... 2048; n and k are those of the unsharded product.
  tilelace bench gemm_rs --tp 2 --m 512 --model llama3.1-8b --iterations 50 --json rs.jsonl
      The gemm_rs products of a model's layer.
  tilelace bench ag_gemm --tp 4 --m 512:8192:2 --n 28672 --k 8192 --backend cuda --json -
      On four GPUs, records on standard output.
  tilelace bench ag_gemm --tp 4 --m 256,1024 --n 28672 --k 8192 --backend cuda \
           --plan transport=push --plan transport=pull --plan route=ring --plan transport=store
      Several plans, one row each.
  tilelace bench gemm_rs --tp 2 --m 4096 --n 8192 --k 28672 --backend cuda \
           --candidates 6 --baselines nccl,nccl_window,beside --json rs.jsonl
      The fastest of six plans of each kind, beside cuBLASLt and NCCL.
  tilelace bench mlp_rs --tp 2 --m 4096 --n 28672 --k 8192 --backend cuda --baselines nccl
      Both halves of an MLP in one graph.
  tilelace bench --rows benchmarks/rows/users.txt --tp 2 --backend cuda --brief --minutes 4 \
           --baselines nccl,nccl_window --iterations 5 --json users.jsonl
      Rows of a file; each line is OP N[,N...] K M[,M...] [NAME [swiglu]].
  tilelace bench gemm_ar --tp 8 --m 1,64 --n 4096 --k 4096 --link 25,5 --no-check
  tilelace bench all_reduce,all_gather --tp 4 --size 8K:64M:2 --backend cuda \
           --baselines nccl,nccl_window --json collectives.jsonl
      Collectives by themselves, beside NCCL's on plain buffers and on windows.
  tilelace bench moe_rs --tp 2 --m 64,512 --model olmoe-1b-7b --routing uniform,hot
      A layer of experts with several routings; also with --backend cuda.
)";

void set_jobs(BenchOptions& o, Workload& work) {
  if (!o.rows.empty()) {
    require(o.model.ops.empty() && o.model.model.empty() && o.n.empty() && o.k == 0 &&
                o.session.m.empty(),
            "--rows: the file has ops and sizes: leave out op, --model, --n, --k and --m");
    load_rows(o.rows, o.session.ranks, work);
    o.session.m = fmt::format("{}", fmt::join(work.sizes, ","));
    return;
  }
  require(!o.model.ops.empty() && !o.session.m.empty(),
          "bench: {} is missing: give an op and --m, or --rows",
          o.model.ops.empty() ? "op" : "--m");
  if (!o.model.ops.starts_with("mlp_"))
    return load_products("bench", o.model, o.n, o.k, o.session.ranks, work);
  require_sizes("bench", o.model, o.n, o.k);
  work.config.layers = 1;
  require(std::ranges::count(kMlpNames, o.model.ops) == 1, "bench: op: got \"{}\", expected {}",
          o.model.ops, fmt::join(kMlpNames, ", "));
  require(o.n.size() == 1, "{}: --n: got {} values, expected one, the inner width", o.model.ops,
          o.n.size());
  require(
      parse_device(o.session.backend) == Device::cuda && o.session.plans.empty(),
      "{}: only for GPU ranks, with the planner's plan: add --backend cuda and leave out --plan",
      o.model.ops);
  work.jobs.push_back(plain_mlp(o.model.ops, o.n[0], o.k, o.session.ranks));
}

void set_time(const BenchOptions& o, Workload& work) {
  work.budget_s = 60 * o.minutes;
  work.brief = o.brief;
  const bool mlp = std::ranges::any_of(work.jobs, [](const Job& job) { return !!job.then; });
  require(!o.brief || (work.device == Device::cuda && !mlp),
          "--brief: only for products on GPU ranks (--backend cuda), not for MLPs");
  require(o.minutes == 0 || !mlp, "--minutes: only for products, not for MLPs");
}

/// Before any thread; what is set already stays, and is refused later.
void ban_multicast() { setenv("NCCL_NVLS_ENABLE", "0", 0); }

/// Products alone are compared: what else a layer has is not cuBLASLt's.
void set_baselines(const BenchOptions& o, Workload& work) {
  if (o.baselines.empty()) return;
  ban_multicast();
  work.baselines = parse_baselines(o.baselines);
  require(work.device == Device::cuda, "--baselines: GPU ranks only, add --backend cuda");
  for (Job& job : work.jobs) {
    if (job.then) continue;
    job.gemm.bias = false;
    job.gemm.activation = Activation::none;
  }
}

void set_candidates(const BenchOptions& o, Workload& work) {
  work.candidates = o.candidates;
  if (!o.kinds.empty()) work.kinds = split_list("--kinds", o.kinds);
  if (work.candidates == 0 && work.kinds.empty()) return;
  require(work.device == Device::cuda, "--candidates, --kinds: GPU ranks only, add --backend cuda");
  require(o.session.plans.empty(), "--candidates and --kinds choose the plans: leave out --plan");
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  auto* command = app.add_subcommand("bench", "Time ops over a range of sizes");
  command->footer(kBenchExamples + ("\n" + std::string(plan_help())) + collective_plan_help() +
                  "\n" + model_help());
  command->add_option(
      "op", o->model.ops,
      names_of_ops() +
          "; an MLP on GPU ranks: mlp_rs (ag_gemm with swiglu, then gemm_rs) or mlp_ar (a product "
          "with swiglu, then gemm_ar); a layer of experts: " +
          moe_help() + "; or collectives, one or a list: " + names_of_collectives());
  command->add_option("--rows", o->rows, "A file of rows, instead of op, sizes and --m");
  command->add_option("--model", o->model.model,
                      "A model's layer: a name, config.json, folder, or sizes; see below");
  command->add_option("--layer", o->model.layer, "A layer's number, or all")
      ->default_str("0")
      ->needs("--model");
  add_extent_options(*command, o->n, o->k, "; MLP: the inner width");
  command
      ->add_option("--candidates", o->candidates,
                   "GPU ranks: time the best N predictions of each kind of plan; fused is the "
                   "fastest of them")
      ->check(whole_between(0, 1000));
  command->add_option(
      "--kinds", o->kinds,
      "GPU ranks: candidates of these kinds only, as \"push by shard,store whole\"");
  command->add_option("--baselines", o->baselines,
                      "GPU ranks: a list of what is timed beside it: nccl, nccl_registered, "
                      "nccl_window (NCCL with plain, registered and window buffers); for products "
                      "also cublas and beside (product and copies at the same time)");
  add_session_options(*command, o->session);
  command->get_option("--m")->required(false);
  add_collective_options(*command, o->collectives);
  add_expert_options(*command, o->experts);
  add_routing_option(*command, o->experts);
  command
      ->add_option("--minutes", o->minutes,
                   "Stop beginning rows after this time (default: no limit)")
      ->check(number_between(0, 100000));
  command->add_flag(
      "--brief", o->brief,
      "GPU ranks: time only fused and the baselines' whole calls; check against fp64 only");
  command->add_flag("--no-check", o->session.no_check, "Do not check the results");
  command->callback([o, command, &exit_code] {
    if (!o->model.ops.empty() && are_moe("bench", o->model.ops)) {
      exit_code =
          time_layers(*command, {o->model.ops, o->model.model, o->n, o->k}, o->experts, o->session);
      return;
    }
    refuse_moe_options("bench", *command);
    if (!o->model.ops.empty() && are_collectives(o->model.ops)) {
      if (!o->baselines.empty()) ban_multicast();
      exit_code =
          bench_collectives(*command, o->model.ops, o->baselines, o->collectives, o->session);
      return;
    }
    for (const char* name : {"--size", "--in-place", "--symmetric"})
      require(command->count(name) == 0, "bench: {} is only for collectives", name);
    Workload work;
    set_jobs(*o, work);
    apply(o->session, work);
    set_time(*o, work);
    set_candidates(*o, work);
    set_baselines(*o, work);
    exit_code = run_session(work, o->session);
  });
}

}  // namespace tilelace::cli
