// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "check/moe_map.h"
#include "check/mutants.h"
#include "check/sweep.h"
#include "commands.h"
#include "core/check.h"
#include "machine.h"
#include "options.h"
#include "plan/base/schedules.h"
#include "progress.h"
#include "record.h"
#include "session.h"
#include "table.h"
#include "text_width.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CheckCommand {
  std::string op, json;
  int ranks = 4, workers = 4;
  std::int64_t m = -1, n = -1, configurations = 3000;
  std::uint64_t seed = 1;
  bool mutants = false, maps = false;
};

constexpr const char* kCheckExamples = R"(Examples:
  tilelace check
      3000 random configurations: ops, routes, transports, uneven rows, sequences of calls.
  tilelace check --op gemm_rs --tp 8 --m 8192 --n 12288 --workers 132
      One shape with every route, transport and order of tiles, three calls each.
  tilelace check --mutants
      Removes one guard at a time; the checker must find each.
  tilelace check --maps
      Maps of mixtures of experts, of routings instead of schedules.
Exits 1 on a finding, and prints its role, rank, step, tile, peer and flag.
)";

int report(const CheckCommand& o, const check::SweepSummary& sum, double seconds) {
  for (const auto& [config, findings] : sum.failures) {
    fmt::print(stderr, "finding in {}\n", check::to_string(config));
    for (const auto& f : findings) fmt::print(stderr, "  {}\n", f.text);
  }
  RecordFile records(o.json);
  if (!o.json.empty()) {
    Json r;
    r["schema"] = "tilelace.check/1";
    r["configurations"] = sum.configurations;
    r["mixed"] = sum.mixed;
    r["steps"] = sum.steps;
    r["tiles"] = sum.tiles;
    r["transfers"] = sum.transfers;
    r["flags"] = sum.flags;
    r["failed"] = sum.failed;
    r["seconds"] = seconds;
    records.write(r.dump());
  }
  if (!records.is_stdout()) {
    print_filled(fmt::format(
        "explored {} configurations ({} with calls that differ), {} steps, {} tiles, {} transfers, "
        "{} flags in {:.2f} s",
        sum.configurations, sum.mixed, sum.steps, sum.tiles, sum.transfers, sum.flags, seconds));
    fmt::print("{} with findings\n", sum.failed);
  }
  return sum.failed > 0 ? kWrong : kDone;
}

int run_sweep(const CheckCommand& o) {
  const double begin = seconds_now();
  Progress progress(o.configurations, false);
  const auto sum = check::sweep(o.configurations, o.seed,
                                [&](std::int64_t done) { progress.set(done, "configurations"); });
  progress.clear();
  return report(o, sum, seconds_now() - begin);
}

/// The calls that a shape gets: one an op, tiles and chunks as the planner takes them.
std::vector<check::CallSpec> shapes_of(const CheckCommand& o) {
  std::vector<check::CallSpec> shapes;
  const std::int64_t m = o.m < 0 ? 1024 : o.m, n = o.n < 0 ? 4096 : o.n;
  for (const Op op : parse_ops(o.op)) {
    Problem p;
    p.op = op;
    p.ranks = o.ranks;
    p.m = m;
    const bool split = row_of(op).gathers && row_of(op).multiplies();
    p.n = {split ? (n + o.ranks - 1) / o.ranks : n};
    p.k = row_of(op).multiplies() ? 1024 : n;
    Machine machine;
    machine.workers = o.workers;
    PlanOptions options;
    options.path = Path::fused;
    const Plan plan = make_plan(p, machine, options);
    const auto borders = plan::borders_of(p);
    shapes.push_back(
        plan::with_schedule(p, plan, 0, borders, [](const auto& s) { return check::spec_of(s); }));
    shapes.back().op = op;
  }
  return shapes;
}

/// Memory grows with the tiles of all ranks.
void check_size(const CheckCommand& o) {
  constexpr double kMostTiles = 4e6;
  for (const auto& s : shapes_of(o)) {
    const double bands = static_cast<double>(s.m) / s.tile_m + o.ranks;
    const double tiles = bands * static_cast<double>(s.cols) * o.ranks;
    require(tiles <= kMostTiles,
            "check: {:.3g} tiles over all ranks are too many: take a smaller --m, --n or --tp (at "
            "most {:.3g} tiles)",
            tiles, kMostTiles);
  }
}

int run_shapes(const CheckCommand& o) {
  check_size(o);
  const double begin = seconds_now();
  std::vector<check::CheckConfig> all;
  for (const auto& shape : shapes_of(o)) {
    const auto more = check::variants(shape, o.ranks, o.workers);
    all.insert(all.end(), more.begin(), more.end());
  }
  if (o.seed > 1)
    for (auto& config : all) config.seed = config.seed != 0 ? o.seed : 0;
  Progress progress(static_cast<std::int64_t>(all.size()), false);
  const auto sum =
      check::check_all(all, [&](std::int64_t done) { progress.set(done, "configurations"); });
  progress.clear();
  return report(o, sum, seconds_now() - begin);
}

int run_mutants(const CheckCommand& o) {
  RecordFile records(o.json);
  const auto results = check::run_mutants();
  const Table table({{"mutant", 24, true}, {"applied"}, {"caught"}, {"what it breaks", 0, true}},
                    "", text_columns());
  const bool shows = !records.is_stdout();
  if (shows) fmt::print("{}\n", table.header());
  std::size_t caught = 0;
  for (const auto& r : results) {
    caught += r.caught > 0 ? 1 : 0;
    const std::string name(check::name_of(r.mutant));
    if (!o.json.empty()) {
      Json j;
      j["schema"] = "tilelace.mutant/1";
      j["mutant"] = name;
      j["applied"] = r.applied;
      j["caught"] = r.caught;
      j["finding"] = r.finding;
      records.write(j.dump());
    }
    if (!shows) continue;
    fmt::print("{}\n", table.line({name, fmt::format("{}", r.applied), fmt::format("{}", r.caught),
                                   std::string(check::describe(r.mutant))}));
    if (r.caught == 0) fmt::print("  LIVES\n");
  }
  if (shows) fmt::print("mutants caught {} of {}\n", caught, results.size());
  return caught == results.size() ? kDone : kWrong;
}

/// Maps of mixtures of experts: of all small routings and random ones; then mistakes in them.
int run_maps(const CheckCommand& o) {
  const double begin = seconds_now();
  const auto sweep = check::sweep_maps(o.configurations, o.seed);
  const auto mutants = check::run_map_mutants();
  const auto lives = std::ranges::count_if(
      mutants, [](const auto& r) { return r.applied == 0 || r.caught < r.applied; });
  if (!sweep.finding.empty()) fmt::print(stderr, "finding: {}\n", sweep.finding);
  RecordFile records(o.json);
  if (!o.json.empty()) {
    Json r;
    r["schema"] = "tilelace.maps/1";
    r["maps"] = sweep.maps;
    r["finding"] = sweep.finding;
    r["mutants"] = mutants.size();
    r["lives"] = lives;
    records.write(r.dump());
  }
  if (!records.is_stdout())
    fmt::print("looked at {} maps in {:.2f} s, {}\nmutants caught {} of {}\n", sweep.maps,
               seconds_now() - begin, sweep.finding.empty() ? "no finding" : "a finding",
               mutants.size() - static_cast<std::size_t>(lives), mutants.size());
  return sweep.finding.empty() && lives == 0 ? kDone : kWrong;
}

int run_check(const CheckCommand& o) {
  RecordFile probe(o.json);  // an unwritable path shows now, not after the work
  if (o.maps) return run_maps(o);
  if (o.mutants) return run_mutants(o);
  const bool shape = o.m >= 0 || o.n >= 0 || !o.op.empty();
  return shape ? run_shapes(o) : run_sweep(o);
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<CheckCommand>();
  auto* command = app.add_subcommand(
      "check", "Search the schedules for deadlocks, races, lost and doubled data");
  command->footer(kCheckExamples);
  command->add_option("--op", o->op,
                      "One shape: only these ops, as ag_gemm,gemm_rs (default: all)");
  auto* tp = command->add_option("--tp", o->ranks, "One shape: ranks")
                 ->capture_default_str()
                 ->check(whole_between(1, 64));
  command->add_option("--m", o->m, "One shape: rows (default: 1024)")
      ->check(whole_between(0, 1 << 24));
  command->add_option("--n", o->n, "One shape: columns of the unsharded product (default: 4096)")
      ->check(whole_between(1, 1 << 24));
  auto* workers =
      command->add_option("--workers", o->workers, "One shape: compute workers of each rank")
          ->capture_default_str()
          ->check(whole_between(1, 1024));
  command
      ->add_option("--configurations", o->configurations,
                   "Without a shape: random configurations to try")
      ->capture_default_str()
      ->check(whole_between(1, kMostSize));
  command->add_option("--seed", o->seed, "Seed of the random choices")->capture_default_str();
  command->add_flag("--mutants", o->mutants, "Seed one bug at a time; exit 1 unless all are found");
  command->add_flag(
      "--maps", o->maps,
      "Maps of mixtures of experts instead: all small routings, random ones, mutants");
  command->add_option("--json", o->json,
                      "Write summaries, one per line, to this file; - is standard output");
  add_wide_option(*command);
  command->callback([o, tp, workers, &exit_code] {
    // Given alone, these ask for one shape, too.
    if (o->m < 0 && (tp->count() > 0 || workers->count() > 0)) o->m = 1024;
    exit_code = run_check(*o);
  });
}

}  // namespace tilelace::cli
