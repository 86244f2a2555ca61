// SPDX-License-Identifier: Apache-2.0
// gpu_links: GB/s a GPU and direction of every way of moving bytes, all GPUs at once, against the
// bars that the fused ops rest on.
#include <CLI/CLI.hpp>

#include "backend/cuda/measure/link_bench.h"
#include "core/check.h"
#include "harness.h"
#include "json_lines.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

using cuda::measure::LinkBench;
using cuda::measure::Measured;
using cuda::measure::Mover;
using cuda::measure::Timing;
using cuda::measure::Way;

struct Options {
  int ranks = 0;
  std::string only;
  std::string json;
  std::string commit;
  std::size_t largest_mib = 256;
};

struct Row {
  Way way;
  Measured measured;
};

constexpr double kPushBar64 = 355;
constexpr double kPushBar256 = 378;
constexpr double kBulkBar = 320;

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const std::size_t mib : {1, 4, 16, 64, 256}) {
    const double bar = mib == 64 ? kPushBar64 : mib == 256 ? kPushBar256 : 0;
    all.push_back({"ce_push", Mover::copy_engine, false, Timing::queue, 0, mib, bar});
    all.push_back({"ce_push_calls", Mover::copy_engine, false, Timing::calls, 0, mib, bar});
    all.push_back({"ce_push_host", Mover::copy_engine, false, Timing::host, 0, mib});
  }
  for (const std::size_t mib : {16, 64, 256})
    all.push_back({"ce_pull_host", Mover::copy_engine, true, Timing::host, 0, mib});
  for (const int ctas : {4, 8, 12, 16, 32})
    all.push_back(
        {"tma_push", Mover::bulk, false, Timing::queue, ctas, 64, ctas <= 16 ? kBulkBar : 0});
  for (const int ctas : {8, 16})
    all.push_back({"tma_pull", Mover::bulk, true, Timing::queue, ctas, 64});
  for (const int ctas : {16, 32, 64, 132})
    all.push_back({"store_push", Mover::threads, false, Timing::queue, ctas, 64});
  for (const int ctas : {32, 132})
    all.push_back({"load_pull", Mover::threads, true, Timing::queue, ctas, 64});
  for (const int ctas : {8, 16, 32})
    all.push_back({"tma_add_bf16", Mover::bulk_add, false, Timing::queue, ctas, 64});
  for (const int ctas : {32, 132})
    all.push_back({"red_add_bf16", Mover::threads_add, false, Timing::queue, ctas, 64});
  return all;
}

Json record(const char* what, int ranks, const Options& o) {
  Json r;
  r["schema"] = "tilelace.links/1";
  r["what"] = what;
  r["ranks"] = ranks;
  r["ctas"] = nullptr;
  r["bytes_per_peer"] = nullptr;
  r["gb_per_s"] = nullptr;
  r["us"] = nullptr;
  r["verified"] = nullptr;
  r["device"] = device_name();
  r["driver"] = driver_version();
  r["commit"] = o.commit.empty() ? Json(nullptr) : Json(o.commit);
  r["time"] = utc_now();
  return r;
}

Json record(const Row& row, int ranks, const Options& o) {
  Json r = record(row.way.what, ranks, o);
  if (row.way.ctas > 0) r["ctas"] = row.way.ctas;
  r["bytes_per_peer"] = row.way.mib << 20;
  r["gb_per_s"] = row.measured.gb_per_s;
  r["us"] = row.measured.us;
  r["verified"] = row.measured.verified;
  return r;
}

/// A bar stands for a size and kind: the best of the rows that carry it has to reach it.
bool bar_met(const std::vector<Row>& rows, double bar) {
  double best = -1;
  for (const Row& r : rows)
    if (r.way.bar == bar) best = std::max(best, r.measured.gb_per_s);
  return best < 0 || best >= bar;
}

bool print_table(const std::vector<Row>& rows, double round_trip_us, int ranks) {
  bool good = true;
  fmt::print("{:<16} {:>5} {:>9} {:>10} {:>9} {:>9}  {}\n", "what", "CTAs", "MiB/peer", "us",
             "GB/s", "verified", "bar");
  for (const Row& r : rows) {
    const Measured& m = r.measured;
    const std::string bar = r.way.bar == 0
                                ? "-"
                                : fmt::format("{:.0f} {}", r.way.bar,
                                              m.gb_per_s >= r.way.bar    ? "met"
                                              : bar_met(rows, r.way.bar) ? "met by another row"
                                                                         : "MISSED");
    const std::string verified =
        m.verified ? "yes" : fmt::format("{:.0f} WRONG WORDS", m.wrong_words);
    fmt::print("{:<16} {:>5} {:>9} {:>10.1f} {:>9.1f} {:>9}  {}\n", r.way.what,
               r.way.ctas > 0 ? std::to_string(r.way.ctas) : "-", r.way.mib, m.us, m.gb_per_s,
               verified, bar);
    good = good && m.verified && (r.way.bar == 0 || bar_met(rows, r.way.bar));
  }
  if (round_trip_us > 0) fmt::print("{:<16} {:>26.2f}\n", "flag_round_trip", round_trip_us);
  fmt::print("links of {} ranks, all at once, a GPU and direction: {}\n", ranks,
             good ? "good" : "FAILED");
  return good;
}

int run(const Options& o) {
  const int ranks = choose_ranks(o.ranks);
  JsonLines json(o.json, false);
  std::vector<Row> rows;
  double round_trip_us = 0;
  const auto wanted = [&](const char* what) {
    return o.only.empty() || std::string(what).find(o.only) != std::string::npos;
  };
  run_ranks(ranks, [&](Rank& rank) {
    LinkBench bench(rank, o.largest_mib);
    for (const Way& way : ways()) {
      if (!wanted(way.what) || way.mib > o.largest_mib) continue;
      const Measured m = bench.run(way);
      if (rank.rank != 0) continue;
      rows.push_back({way, m});
      json.write(record(rows.back(), ranks, o));
    }
    if (wanted("flag_round_trip")) {
      const double us = bench.round_trip_us();
      if (rank.rank == 0) {
        round_trip_us = us;
        Json line = record("flag_round_trip", ranks, o);
        line["us"] = us;
        json.write(line);
      }
    }
    rank.meet();  // nobody's memory goes while a peer may still use it
  });
  require(!rows.empty() || round_trip_us > 0, "--only: got {}, expected part of a row's name",
          o.only);
  return print_table(rows, round_trip_us, ranks) ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("What do the links between these GPUs give?");
  Options options;
  app.add_option("--ranks", options.ranks, "ranks (default: every GPU)");
  app.add_option("--only", options.only, "only rows whose name holds this");
  app.add_option("--largest-mib", options.largest_mib, "leave out larger transfers")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1024}));
  app.add_option("--json", options.json, "write JSON lines to this file, - for standard output");
  app.add_option("--commit", options.commit, "goes into the records");
  return run_program("gpu_links", app, argc, argv, [&] { return run(options); });
}
