// SPDX-License-Identifier: Apache-2.0
// gpu_op_trace: what every SM does in a call of a fused op, beside the product alone. Needs a build
// with TILELACE_TRACE.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "harness.h"
#include "program.h"
#include "summary.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

struct Options {
  int ranks = 0;
  std::int64_t hidden = 8192, inner = 28672;
  std::vector<std::int64_t> ms{4096};
  std::vector<std::string> ops{"ag_gemm", "gemm_rs", "gemm_ar"};
  std::string plan, out;
  int candidates = 1;
  int shown = 1;
  double limit_s = 0;
};

cli::Workload work_of(const Options& o, int ranks) {
  const int devices = comm::device_count();
  require(ranks <= devices, "--ranks: got {}, expected at most one a GPU ({})", ranks, devices);
  for (const std::int64_t m : o.ms)
    require(m > 0 && m <= 1 << 20, "--m: got {}, expected 1 to {}", m, 1 << 20);
  cli::Workload work;
  work.config.layers = 1;
  work.ranks = ranks;
  work.sizes = o.ms;
  work.device = Device::cuda;
  work.iterations = 5;
  work.baselines = {"cublas"};
  work.candidates = o.candidates;
  work.plan = o.plan;
  for (const std::string& name : o.ops) {
    const Op op = cli::parse_ops(name).front();
    const bool gathers = op == Op::ag_gemm;
    work.jobs.push_back(
        {cli::plain_gemm(op, {gathers ? o.inner : o.hidden}, gathers ? o.hidden : o.inner, ranks)});
  }
  return work;
}

void write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "we"),
                                                             std::fclose);
  require(file != nullptr && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size(),
          "--out: {}: got no file, expected one to write", path);
}

void report(const Options& o, const cli::Job& job, std::int64_t m,
            const std::vector<RankRow>& ranks) {
  const Op op = job.gemm.op;
  const std::string name = fmt::format("{}.m{}.tp{}", name_of(op), m, job.gemm.tp);
  const std::string text = summary(fmt::format("{} m {} n {} k {}, {} ranks", name_of(op), m,
                                               job.gemm.n[0], job.gemm.k, job.gemm.tp),
                                   op, ranks);
  fmt::print("{}", text);
  std::fflush(stdout);
  if (o.out.empty()) return;
  write_file(fmt::format("{}/{}.txt", o.out, name), text);
  write_file(fmt::format("{}/{}.json", o.out, name), perfetto_json(ranks, o.shown));
}

int run(const Options& o) {
  const cli::Workload work = work_of(o, choose_ranks(o.ranks));
  const auto rows = work.jobs.size() * work.sizes.size();
  const Watchdog watchdog("gpu_op_trace",
                          o.limit_s > 0 ? o.limit_s : 60 + 30.0 * static_cast<double>(rows));
  std::vector<RankRow> all(static_cast<std::size_t>(work.ranks));
  cli::RanksOptions options;
  options.ranks = work.ranks;
  options.group.device = Device::cuda;
  cli::run_ranks(options,
                 [&](Communicator& member, const cli::Send& send) {
                   cli::GpuRank gpu(work, member, send);
                   for (const cli::Job& job : work.jobs)
                     for (const std::int64_t m : work.sizes) {
                       RankRecorder recorder(gpu, job, m);
                       all[static_cast<std::size_t>(member.rank())] = recorder.run();
                       member.barrier();
                       if (member.rank() == 0) report(o, job, m, all);
                       member.barrier();  // nobody's recordings go while they are read
                     }
                 },
                 {[](int, const std::string&) {}, [] {}});
  return 0;
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU)");
  app.add_option("--hidden", o.hidden, "width of an MLP's input and result")->capture_default_str();
  app.add_option("--inner", o.inner, "and of what is between")->capture_default_str();
  app.add_option("--m", o.ms, "rows of the operand, all ranks together")->delimiter(',');
  app.add_option("--ops", o.ops, "of ag_gemm, gemm_rs, gemm_ar")
      ->delimiter(',')
      ->check(CLI::IsMember({"ag_gemm", "gemm_rs", "gemm_ar"}));
  app.add_option("--plan", o.plan, "of one op: a plan, as records print it");
  app.add_option("--candidates", o.candidates,
                 "plans of each kind that are tried, best prediction first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--out", o.out,
                 "folder for OP.mM.tpN.txt, what is printed, and .json, for Perfetto")
      ->check(CLI::ExistingDirectory);
  app.add_option("--calls", o.shown, "calls in the file for Perfetto, the last ones")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--limit-seconds", o.limit_s, "ends the process (default: 60 and 30 a row)")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Records what every SM does in a call of a fused op");
  Options options;
  add_options(app, options);
  return run_program("gpu_op_trace", app, argc, argv, [&] { return run(options); });
}
