// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "commands.h"
#include "model_jobs.h"
#include "model_sizes.h"
#include "moe/command.h"
#include "session.h"

namespace tilelace::cli {
namespace {

struct RunOptions {
  ModelRequest model;
  SessionOptions session;
  MoeRequest experts;
};

constexpr const char* kRunExamples = R"(Examples:
  tilelace run --model minilm-l6 --tp 4 --m 128
      All tensor-parallel products of layer 0, with random weights, on four ranks.
  tilelace run --model ./all-MiniLM-L6-v2 --tp 4 --m 1,7,128
      A folder with config.json and model.safetensors: the tensors of all layers.
  tilelace run --model qwen2.5-0.5b --tp 2 --m 512 --link 2,10
      Each rank sends at 2 GB/s with a latency of 10 us, so that there is something to hide.
  tilelace run --model minilm-l6 --tp 2 --m 128 --op gemm_ar --processes --json -
      One process per rank; only records on standard output.
  tilelace run --model hidden=1024,intermediate=2816,heads=16,kv_heads=8 --tp 2 --m 64
      A layer without a config.
  tilelace run --model qwen3-32b --tp 4 --m 1024,4096 --backend cuda
      On four GPUs.
  tilelace run moe_rs --model olmoe-1b-7b --tp 2 --m 16 --routing uniform,hot
      A layer of experts.
Exit status: 0 all rows verified, 1 a wrong result, 2 bad input, 3 a rank or the system failed.
)";

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<RunOptions>();
  auto* command =
      app.add_subcommand("run", "Run a model's layer on several ranks, check and time it");
  command->footer(kRunExamples + ("\n" + std::string(plan_help())) + "\n" + model_help());
  command
      ->add_option("--model", o->model.model,
                   "A name, a Hugging Face config.json, a folder with one, or sizes; see below")
      ->required();
  command->add_option("--weights", o->model.weights,
                      "A .safetensors file (default: the folder's, else random weights)");
  command->add_option("--layer", o->model.layer,
                      "A layer's number, or all (default: all of real weights, else 0)");
  command->add_option(
      "op,--op", o->model.ops,
      "Only these ops, as ag_gemm,gemm_rs (default: all); a layer of experts: " + moe_help());
  add_session_options(*command, o->session);
  add_routing_option(*command, o->experts);
  command->callback([o, command, &exit_code] {
    if (!o->model.ops.empty() && are_moe("run", o->model.ops)) {
      exit_code =
          time_layers(*command, {o->model.ops, o->model.model, {}, 0}, o->experts, o->session);
      return;
    }
    refuse_moe_options("run", *command);
    Workload work;
    load_model(o->model, o->session.ranks, work);
    apply(o->session, work);
    exit_code = run_session(work, o->session);
  });
}

}  // namespace tilelace::cli
