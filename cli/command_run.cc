// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "commands.h"
#include "model_jobs.h"
#include "session.h"

namespace tilelace::cli {
namespace {

struct RunOptions {
  ModelRequest model;
  SessionOptions session;
};

constexpr const char* kRunExamples = R"(Examples:
  tilelace run --model minilm-l6 --tp 4 --m 128
      Every tensor-parallel GEMM of layer 0 with random weights, over four ranks.
  tilelace run --model ./all-MiniLM-L6-v2 --tp 4 --m 1,7,128
      A folder with config.json and model.safetensors: all layers' real tensors.
  tilelace run --model qwen2.5-0.5b --tp 2 --m 512 --link 2,10
      Each rank sends at 2 GB/s with 10 us latency, so that overlap shows on one machine.
  tilelace run --model minilm-l6 --tp 2 --m 128 --op gemm_ar --processes --json -
      One process a rank; records on standard output and nothing else.
  tilelace run --model qwen3-32b --tp 4 --m 1024,4096 --backend cuda
      On four GPUs.
Exit status: 0 all rows verified, 1 a wrong result, 2 bad input, 3 a rank or the system failed.
)";

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<RunOptions>();
  auto* command = app.add_subcommand(
      "run", "Run a model's tensor-parallel GEMMs fused, checked against the unsharded product");
  command->footer(kRunExamples + ("\n" + std::string(plan_help())) + "\nModels: " + model_names() +
                  "\n");
  command
      ->add_option("--model", o->model.model,
                   "A Hugging Face config.json, a folder with one, or a name below")
      ->required();
  command->add_option("--weights", o->model.weights,
                      "Weights (.safetensors); default: the folder's, else random ones");
  command->add_option("--layer", o->model.layer,
                      "A layer's number or `all` (default: all of real weights, else 0)");
  command->add_option("--op", o->model.ops, "Only these: ag_gemm,gemm_rs,gemm_ar (default: all)");
  add_session_options(*command, o->session);
  command->callback([o, &exit_code] {
    Workload work;
    load_model(o->model, o->session.ranks, work);
    apply(o->session, work);
    exit_code = run_session(work, o->session);
  });
}

}  // namespace tilelace::cli
