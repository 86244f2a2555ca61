// SPDX-License-Identifier: Apache-2.0
// Times plans on this machine's GPUs and keeps the fastest of each problem in a table.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "model_jobs.h"
#include "model_sizes.h"
#include "moe/tune.h"
#include "options.h"
#include "session.h"
#include "sizes.h"
#include "table.h"
#include "text_width.h"
#include "tilelace/op_table.h"
#include "tuning_file.h"

namespace tilelace::cli {
namespace {

struct TuneOptions {
  ModelRequest model;
  SessionOptions session;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  TuneRequest table;
  MoeRequest experts;
  int candidates = 3;
};

constexpr const char* kTuneExamples = R"(Examples:
  tilelace tune --model llama3.1-8b --tp 2
      Every product of a layer, for the usual numbers of tokens, in 8 minutes.
  tilelace tune gemm_rs --tp 4 --m 333,3001 --n 8192 --k 28672 --out h200x4.json
  tilelace plan --model llama3.1-8b --tp 2 --m 333 --backend cuda --tuning tilelace-tuning.json
      What a table changes.
  tilelace tune --model mixtral-8x7b --tp 2
      The tiles of both products of a layer of experts.
  tilelace tune --merge a.json,b.json --out both.json
      Needs no GPU.
Run the same again to go on where it stopped. Ranks use a table that TILELACE_TUNING,
tilelace.join(tuning=) or CommunicatorOptions::tuning_file names.
)";

/// Tokens of decoding, of chunks of a prompt, and of prompts.
constexpr const char* kUsualSizes = "1,16,32,64,128,256,512,1024,2048,4096,8192";

Workload workload_of(TuneOptions& o) {
  Workload work;
  if (o.model.layer.empty()) o.model.layer = "0";
  load_products("tune", o.model, o.n, o.k, o.session.ranks, work);
  if (o.session.m.empty()) o.session.m = kUsualSizes;
  apply(o.session, work);
  work.tunes = true;
  work.candidates = o.candidates;
  work.force = o.table.force;
  work.budget_s = 60 * o.table.minutes;
  return work;
}

Problem problem_of_row(const Workload& work, int number) {
  return problem_of(job_of(work, number).gemm, m_of(work, number), work.dtype);
}

std::vector<Row> named_rows(const Workload& work) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < work.jobs.size() * work.sizes.size(); ++i)
    rows.push_back(named_row(work, static_cast<int>(i)));
  return rows;
}

class Tuning {
 public:
  Tuning(const TuneOptions& o, Workload& work)
      : work_(work),
        file_(open_table(o.table, work.gpus)),
        out_(o.table.out),
        table_(tune_table(named_rows(work), text_columns())) {
    const auto rows = work.jobs.size() * work.sizes.size();
    for (std::size_t i = 0; i < rows; ++i)
      work.skip.push_back(!o.table.again && file_.has(problem_of_row(work, static_cast<int>(i))));
  }

  int run(SessionOptions session) {
    const auto left = std::ranges::count(work_.skip, false);
    fmt::print("{} GPUs, {}: {} problems to tune, {} more are in {} already\n", work_.ranks,
               work_.gpus.name, left, std::ssize(work_.skip) - left, out_);
    file_.write();
    if (left == 0) return kDone;
    session.on_row = [this](const Row& row) { return take(row); };
    const bool shows = !session.quiet && session.json != "-";
    if (shows) fmt::print("\n{}\n", table_.header());
    const int code = run_session(work_, session);
    if (shows) fmt::print("\n{}", table_.legend());
    tally_.print(left, file_, out_);
    return code;
  }

 private:
  std::string take(const Row& row) {
    const Candidate& best = row.candidates.front();
    const double standard = row.planned_us.value_or(0);
    if (row.good()) {
      file_.put(problem_of_row(work_, row.number), best.way.plan,
                {best.us, standard, row.candidates.size()});
      file_.write();
      tally_.add(best.us, standard);
    }
    return table_.line(tune_cells(row));
  }

  Workload& work_;
  TuningFile file_;
  std::string out_;
  Table table_;
  TuneTally tally_;
};

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<TuneOptions>();
  auto* command = app.add_subcommand(
      "tune", "Time plans on this machine's GPUs and keep the fastest in a table");
  command->footer(std::string(kTuneExamples) + "\n" + model_help());
  command->add_option(
      "op", o->model.ops,
      names_of_ops() + ", or a list (default: all); products of a layer of experts: " + moe_help());
  command->add_option("--model", o->model.model,
                      "A model's layer: a name, config.json, folder, or sizes; see below");
  add_extent_options(*command, o->n, o->k);
  command->add_option("--tp", o->session.ranks, "Ranks, one on each GPU")
      ->capture_default_str()
      ->check(whole_between(1, 64));
  command->add_option("--m", o->session.m, kSizesHelp)->default_str(kUsualSizes);
  command->add_option("--dtype", o->session.dtype, "bf16 or fp16 (default: the model's; bf16)");
  command->add_option("--out", o->table.out, "The table; one that exists is continued")
      ->capture_default_str();
  command->add_option("--merge", o->table.merge, "Tables of the same GPUs, whose rows are added")
      ->delimiter(',');
  command->add_option("--minutes", o->table.minutes, "Stop beginning problems after this time")
      ->capture_default_str()
      ->check(number_between(0.01, 100000));
  command
      ->add_option("--candidates", o->candidates,
                   "Time the best N predictions of each kind of plan")
      ->capture_default_str()
      ->check(whole_between(1, 1000));
  command->add_flag("--again", o->table.again, "Also time problems that the table already has");
  command->add_flag("--force", o->table.force,
                    "Go on although a GPU is throttled or used by others");
  command
      ->add_option("--timeout", o->session.timeout_s,
                   "Seconds after which a wait for a peer is an error")
      ->capture_default_str()
      ->check(number_between(0.001, 86400));
  command->add_option("--json", o->session.json,
                      "Add one record per line to this file, with all candidates");
  add_wide_option(*command);
  command->add_flag("--quiet", o->session.quiet, "No table and no progress bar");
  command->add_flag("--no-check", o->session.no_check, "Do not check the results");
  add_expert_options(*command, o->experts);
  command->callback([o, command, &exit_code] {
    setenv("TILELACE_TUNING", "off", 1);  // predictions are what is measured; before any thread
    o->session.backend = "cuda";
    const bool sizes = !o->model.model.empty() || !o->n.empty() || o->k != 0;
    if (!sizes && o->model.ops.empty() && !o->table.merge.empty()) return merge_tables(o->table);
    const MoeSizes experts{o->model.ops, o->model.model, o->n, o->k};
    if (tunes_experts(experts)) {
      if (o->session.m.empty()) o->session.m = kUsualSizes;
      exit_code = tune_layers(*command, experts, o->experts, o->session, o->table);
      return;
    }
    refuse_moe_options("tune", *command);
    Workload work = workload_of(*o);
    exit_code = Tuning(*o, work).run(o->session);
  });
}

}  // namespace tilelace::cli
