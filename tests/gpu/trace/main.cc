// SPDX-License-Identifier: Apache-2.0
// gpu_op_trace: what every SM does in a call of a fused op, beside the product alone. Needs a build
// with TILELACE_TRACE.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "program.h"
#include "summary.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

constexpr double kNcclSeconds = 35;

struct Options {
  int ranks = 0;
  std::vector<std::string> models{"llama70b"};
  std::vector<std::int64_t> ms{4096};
  std::vector<std::string> ops{"ag_gemm", "gemm_rs", "gemm_ar"};
  RankRecorder::Options recorder;
  std::string out;
  int shown = 1;
  double limit_s = 0;
};

std::vector<Row> rows_of(const Options& o, int ranks) {
  const int devices = comm::device_count();
  require(ranks <= devices, "--ranks: got {}, expected at most one a GPU ({})", ranks, devices);
  for (const std::int64_t m : o.ms)
    require(m > 0 && m <= 1 << 20, "--m: got {}, expected 1 to {}", m, 1 << 20);
  std::vector<Op> ops;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    if (std::find(o.ops.begin(), o.ops.end(), name_of(op)) != o.ops.end()) ops.push_back(op);
  return bench_rows(ops, o.models, {"up"}, ranks, o.ms);
}

void write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "we"),
                                                             std::fclose);
  require(file != nullptr && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size(),
          "--out: {}: got no file, expected one to write", path);
}

void report(const Options& o, const Row& row, const std::vector<RankRow>& ranks) {
  const std::string text = summary(row, ranks);
  fmt::print("{}", text);
  std::fflush(stdout);
  if (o.out.empty()) return;
  const std::string name =
      fmt::format("{}/{}.{}.m{}.tp{}", o.out, name_of(row.op), row.model, row.m, row.ranks);
  write_file(name + ".txt", text);
  write_file(name + ".json", perfetto_json(ranks, o.shown));
}

int run(const Options& o) {
  const int ranks = choose_ranks(o.ranks);
  const auto rows = rows_of(o, ranks);
  const Watchdog watchdog("gpu_op_trace",
                          o.limit_s > 0 ? o.limit_s : 60 + 30.0 * static_cast<double>(rows.size()));
  std::vector<RankRow> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Rank& rank) {
    cuda::NcclGroup nccl(*rank.group, rank.device, {kNcclSeconds, true});
    RankRecorder recorder(rank, nccl, rows, o.recorder);
    for (const Row& row : rows) {
      all[static_cast<std::size_t>(rank.rank)] = recorder.run(row);
      rank.meet();
      if (rank.rank == 0) report(o, row, all);
      rank.meet();  // nobody's recordings go while they are read
    }
  });
  return 0;
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU)");
  app.add_option("--models", o.models, "of gpt3, llama70b, qwen32b")
      ->delimiter(',')
      ->check(CLI::IsMember({"gpt3", "llama70b", "qwen32b"}));
  app.add_option("--m", o.ms, "rows of the operand, all ranks together")->delimiter(',');
  app.add_option("--ops", o.ops, "of ag_gemm, gemm_rs, gemm_ar")
      ->delimiter(',')
      ->check(CLI::IsMember({"ag_gemm", "gemm_rs", "gemm_ar"}));
  app.add_option("--plan", o.recorder.fused.only,
                 "only plans of the fused op in whose description this is");
  app.add_option("--candidates", o.recorder.fused.candidates,
                 "plans of the fused op that are tried, best prediction first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--all", o.recorder.fused.all, "prints every fused plan that was tried");
  app.add_option("--algorithms", o.recorder.gemms.algorithms, "of cuBLASLt that are tried")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--gemm-plans", o.recorder.gemms.plans, "of the own GEMM that are tried")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--out", o.out,
                 "folder for OP.MODEL.mM.tpN.txt, what is printed, and .json, for Perfetto")
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
  // Multicast is never used. Before any thread; what is set already stays, and is refused later.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  CLI::App app("Records what every SM does in a call of a fused op");
  Options options;
  add_options(app, options);
  return run_program("gpu_op_trace", app, argc, argv, [&] { return run(options); });
}
