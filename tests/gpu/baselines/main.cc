// SPDX-License-Identifier: Apache-2.0
// gpu_op_bench: the fused ops and what they are compared with, in one process with a thread a GPU:
// the fastest GEMM, NCCL's collectives, one after the other, a GEMM a shard; all in CUDA graphs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "backend/cuda/measure/link_bench.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "pair.h"
#include "program.h"
#include "record.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

using cuda::measure::LinkBench;
using cuda::measure::Measured;
using cuda::measure::Mover;
using cuda::measure::Timing;

/// NCCL's start reads a large library, maybe from a cold disk; below the bound of meetings.
constexpr double kNcclSeconds = 35;

struct Options {
  int ranks = 0;
  std::vector<std::string> models{"gpt3", "llama70b", "qwen32b"};
  std::vector<std::int64_t> ms{16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<std::string> ops{"ag_gemm", "gemm_rs", "gemm_ar"};
  std::vector<std::string> layers{"up"};
  std::vector<std::string> ways{"unfused", "beside", "medium", "fused"};
  std::vector<std::string> buffers{"nccl", "nccl_registered", "nccl_window"};
  BenchOptions bench;
  bool nonblocking = false;
  double link_gbps = 0;
  double limit_s = 0;
  std::string part = "0/1";
  std::vector<std::string> pairs;
  std::string json, commit;
};

/// Collective: GB/s a GPU and direction of a copy-engine push of 256 MiB a peer.
double link_rate(Rank& rank) {
  constexpr std::size_t kMib = 256;
  LinkBench links(rank, kMib);
  const Measured m = links.run({"ce_push", Mover::copy_engine, false, Timing::queue, 0, kMib});
  rank.meet();  // nobody's memory goes while a peer may still use it
  if (!m.verified)
    raise(ErrorKind::system, "links: copy-engine push, got {:.0f} wrong words, expected none",
          m.wrong_words);
  return m.gb_per_s;
}

std::vector<Op> ops_of(const std::vector<std::string>& names) {
  std::vector<Op> ops;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    if (std::find(names.begin(), names.end(), name_of(op)) != names.end()) ops.push_back(op);
  return ops;
}

std::vector<Row> rows_of(const Options& o, int ranks) {
  const int devices = comm::device_count();
  require(ranks <= devices, "--ranks: got {}, expected at most one a GPU ({})", ranks, devices);
  for (const std::int64_t m : o.ms)
    require(m > 0 && m <= 1 << 20, "--m: got {}, expected 1 to {}", m, 1 << 20);
  auto rows = bench_rows(ops_of(o.ops), o.models, o.layers, ranks, o.ms);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.op < b.op; });
  std::size_t part = 0, parts = 1;
  require(std::sscanf(o.part.c_str(), "%zu/%zu", &part, &parts) == 2 && part < parts,
          "--part: got {}, expected I/N with I < N", o.part);
  std::vector<Row> mine;
  for (std::size_t i = part; i < rows.size(); i += parts) mine.push_back(rows[i]);
  require(!mine.empty(), "rows: got none, expected one of --models, --ops, --layers, --m, --part");
  return mine;
}

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

BenchOptions bench_options(const Options& o) {
  BenchOptions b = o.bench;
  b.gemms.lengths = b.fused.lengths = b.lengths;
  b.beside = among(o.ways, "beside");
  b.medium = among(o.ways, "medium");
  b.fuse = among(o.ways, "fused");
  // The plain buffers hold the operands of all other ways.
  for (const cuda::NcclBuffer kind : kBufferKinds)
    if (kind == cuda::NcclBuffer::plain || among(o.buffers, name_of(kind)))
      b.buffers.push_back(kind);
  return b;
}

void run_rank(Rank& rank, const Options& o, const std::vector<Row>& rows, Board& board,
              std::vector<Result>& results, JsonLines& json) {
  const double link = o.link_gbps > 0 ? o.link_gbps : link_rate(rank);
  cuda::NcclGroup nccl(*rank.group, rank.device, {kNcclSeconds, !o.nonblocking});
  RankBench bench(rank, nccl, rows, bench_options(o), board);
  if (rank.rank == 0)
    fmt::print("{} ranks on {}, cuBLASLt {}, NCCL {}, windows {}, link {:.1f} GB/s{}\n", rank.ranks,
               device_name(), cuda::cublas_version(), cuda::nccl_version(),
               bench.has_windows() ? "yes" : "no", link, o.link_gbps > 0 ? " (given)" : "");
  for (const Row& row : rows) {
    const Figures figures = bench.run(row);
    if (rank.rank != 0) continue;
    results.push_back({row, figures, link, o.bench.rounds});
    json.write(record(results.back(), o.commit));
    std::string text;
    for (const Figure& f : figures.all) text += fmt::format(", {} {:.1f}", f.name, f.us);
    fmt::print("{} {} {} m {}{} us{}\n", row.model, name_of(row.op), row.layer, row.m, text,
               results.back().good() ? "" : "  WRONG: " + figures.verified.trouble);
    std::fflush(stdout);
  }
  rank.meet();
}

double limit_s(const Options& o, std::size_t rows) {
  return o.limit_s > 0 ? o.limit_s : 60 + 45.0 * static_cast<double>(rows);
}

int run_pairs(const Options& o, int ranks, JsonLines& json) {
  std::vector<std::string> names;
  for (const std::string& pair : o.pairs) names.push_back("gemm_" + pair);
  const auto rows = pair_rows(ops_of(names), o.models, ranks, o.ms);
  const Watchdog watchdog("gpu_op_bench", limit_s(o, rows.size()));
  std::vector<PairResult> results;
  run_ranks(ranks, [&](Rank& rank) {
    const double link = o.link_gbps > 0 ? o.link_gbps : link_rate(rank);
    cuda::NcclGroup nccl(*rank.group, rank.device, {kNcclSeconds, !o.nonblocking});
    PairBench bench(
        rank, nccl, rows,
        {o.bench.rounds, o.bench.fused.candidates, o.bench.gemms.algorithms, o.bench.lengths});
    for (const PairRow& row : rows) {
      const PairResult result = bench.run(row);
      if (rank.rank != 0) continue;
      results.push_back(result);
      json.write(record(result, link, o.commit));
    }
    rank.meet();
  });
  print_pairs(results);
  return std::all_of(results.begin(), results.end(), [](const PairResult& r) { return r.good(); })
             ? 0
             : 1;
}

int run(const Options& o) {
  JsonLines json(o.json, true);
  const int ranks = choose_ranks(o.ranks);
  if (!o.pairs.empty()) return run_pairs(o, ranks, json);
  const auto rows = rows_of(o, ranks);
  const Watchdog watchdog("gpu_op_bench", limit_s(o, rows.size()));
  Board board(static_cast<std::size_t>(ranks));
  std::vector<Result> results;
  run_ranks(ranks, [&](Rank& rank) { run_rank(rank, o, rows, board, results, json); });
  print_table(results);
  return std::all_of(results.begin(), results.end(), [](const Result& r) { return r.good(); }) ? 0
                                                                                               : 1;
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
  app.add_option("--pairs", o.pairs,
                 "of rs, ar: instead of ops the MLP, ag_gemm with swiglu and gemm_rs, or a product "
                 "with swiglu and gemm_ar, in one graph; of models with a gate")
      ->delimiter(',')
      ->check(CLI::IsMember({"rs", "ar"}));
  app.add_option("--part", o.part,
                 "I/N: every N-th row from I, where the time of a run is limited");
  app.add_option("--rounds", o.bench.rounds, "samples a variant")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--layers", o.layers, "of up (one weight), gate_up (two on one gather)")
      ->delimiter(',')
      ->check(CLI::IsMember({"up", "gate_up"}));
  app.add_option("--ways", o.ways, "of unfused (always there), beside, medium, fused")
      ->delimiter(',')
      ->check(CLI::IsMember({"unfused", "beside", "medium", "fused"}));
  app.add_option("--buffers", o.buffers, "of nccl (always there), nccl_registered, nccl_window")
      ->delimiter(',')
      ->check(CLI::IsMember({"nccl", "nccl_registered", "nccl_window"}));
  app.add_option("--candidates", o.bench.fused.candidates,
                 "plans of the fused op that are tried, best prediction first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--all", o.bench.fused.all, "prints every fused plan that was tried");
  app.add_flag("--kinds", o.bench.fused.kinds, "times the best plan of every kind with care");
  app.add_flag("--nccl-kind", o.bench.fused.nccl, "ag_gemm: rows by NCCL are a kind, too");
  app.add_flag(
      "--other-ways", o.bench.fused.hands,
      "gemm_rs: a product a shard with copies, additions at the owner, a ring are kinds, too");
  app.add_flag("--eager", o.bench.eager, "times fused and unfused without graphs, too");
  app.add_option("--algorithms", o.bench.gemms.algorithms, "of cuBLASLt that are tried")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--gemm-plans", o.bench.gemms.plans, "of the own GEMM that are tried")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--sample-ms", o.bench.lengths.sample_ms, "a sample's length")
      ->check(CLI::Range(0.1, 1000.0))
      ->capture_default_str();
  app.add_option("--link-gbps", o.link_gbps,
                 "of a GPU and direction, for the roof (default: measured)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--limit-seconds", o.limit_s, "ends the process (default: 60 and 45 a row)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--nccl-nonblocking", o.nonblocking, "NCCL's calls do not block: all is bounded");
  app.add_option("--json", o.json, "appends JSON lines to this file, - for standard output");
  app.add_option("--commit", o.commit, "goes into the records");
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  // Multicast is never used. Before any thread; what is set already stays, and is refused later.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  CLI::App app("Times the fused ops, and cuBLASLt and NCCL, one after the other or by shards");
  Options options;
  add_options(app, options);
  return run_program("gpu_op_bench", app, argc, argv, [&] {
    // Captured calls by NCCL need it; the baselines then run without registered buffers, too.
    if (options.bench.fused.nccl) setenv("NCCL_GRAPH_REGISTER", "0", 0);
    return run(options);
  });
}
