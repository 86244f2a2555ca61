// SPDX-License-Identifier: Apache-2.0
// gpu_op_check: conformance of the fused ops on the GPUs of one process, a thread a rank. Random
// problems and edges with every kind of plan, exact integers and fp64; long runs, back to back and
// with delays. Exit 0: all right, 1: a result was wrong, 2: usage, 3: a wait expired or the system.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "ops/conformance.h"
#include "ops/report.h"
#include "ops/stress.h"
#include "program.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kBatch = 20;  // cases that share one staging
constexpr std::array kOps{Op::ag_gemm, Op::gemm_rs, Op::gemm_ar};
constexpr std::string_view kTurns = "turns";  // of --ops: all of them, one after the other

struct Options {
  int ranks = 0;
  int shapes = 100;
  long stress = 0, straggle = 0, pair = 0;
  std::uint64_t seed = 1;
  int only = -1;
  double timeout_s = 20;
  double limit_s = 0;
  std::vector<std::string> ops{"ag_gemm", "gemm_rs", "gemm_ar", "turns"};
  std::vector<std::string> dtypes{"bf16", "fp16"}, kinds;
  bool gated = false, small = false;
  bool drop = false;
  std::string json, commit;
};

constexpr int kForCopies = 2;  ///< multiprocessors left free where ranks share a device

/// What one rank's calls may count on: a share of the multiprocessors where others use the device.
plan::GemmMachine machine_of(int ranks, int communicators) {
  const int devices = std::min(ranks, comm::device_count());
  plan::GemmMachine machine;
  for (int d = 0; d < devices; ++d) {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, d), "SMs");
    machine.multiprocessors = std::min(machine.multiprocessors, count);
  }
  // Copies between ranks of one device are kernels of the driver's: they find a place only beside
  // shares that leave one, and products that wait for them never end otherwise.
  const int sharers = (ranks + devices - 1) / devices;
  if (sharers > 1) machine.multiprocessors -= kForCopies;
  machine.multiprocessors /= sharers * communicators;
  machine.shared = sharers * communicators > 1;
  return machine;
}

cuda::RankShare share_of(const Options& o, int ranks, int communicators) {
  const Extras extras = extras_of(o.kinds, cuda::has_kernel);
  return {machine_of(ranks, communicators).multiprocessors, extras.nccl, extras.hands};
}

/// Of an op: everything that the ranks' threads share; made before they start.
struct Work {
  Op op = Op::ag_gemm;
  std::string name;  ///< of the op, or kTurns
  std::map<DType, std::vector<Case>> cases;
  DType stressed_dtype = DType::bf16;
  std::vector<Problem> stressed;
  std::vector<PlansByKind> kinds, halves;  ///< of each of them; of half a device
};

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Work work_of(const Options& o, Op op, int ranks) {
  const auto machine = machine_of(ranks, 1);
  Work work;
  work.op = op;
  work.name = name_of(op);
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    if (!among(o.dtypes, name_of(dtype))) continue;
    work.stressed_dtype = dtype;
    auto cases = draw_cases(
        o.shapes, {op, ranks, dtype, machine, o.kinds, o.gated, o.small, cuda::has_kernel},
        o.seed * 2 + static_cast<std::uint64_t>(dtype));
    if (o.only >= 0) std::erase_if(cases, [&](const Case& c) { return c.index != o.only; });
    work.cases[dtype] = std::move(cases);
  }
  if (o.stress <= 0 && o.straggle <= 0 && o.pair <= 0) return work;
  work.stressed = stress_problems(op, ranks, work.stressed_dtype, o.small);
  for (const Problem& p : work.stressed) {
    const Extras extras = extras_of(o.kinds, cuda::has_kernel);
    work.kinds.push_back(only(plans_by_kind(p, machine, extras), o.kinds));
    work.halves.push_back(only(plans_by_kind(p, machine_of(ranks, 2), extras), o.kinds));
  }
  require(std::any_of(work.kinds.begin(), work.kinds.end(),
                      [](const PlansByKind& kinds) { return !kinds.empty(); }),
          "--kinds: got none that the problems of {}'s long runs have, expected some", name_of(op));
  return work;
}

/// Long runs in which every call is of another op than the one before.
Work work_of_turns(const Options& o, int ranks) {
  Work work;
  work.name = kTurns;
  if (!among(o.dtypes, name_of(DType::bf16))) work.stressed_dtype = DType::fp16;
  if (o.stress <= 0 && o.straggle <= 0 && o.pair <= 0) return work;
  Extras extras = extras_of(o.kinds, cuda::has_kernel);
  extras.nccl = false;
  for (const Op op : kOps) {
    for (Problem& p : stress_problems(op, ranks, work.stressed_dtype, o.small)) {
      work.kinds.push_back(all_kinds(p, machine_of(ranks, 1), extras));
      work.halves.push_back(all_kinds(p, machine_of(ranks, 2), extras));
      work.stressed.push_back(std::move(p));
    }
  }
  return work;
}

std::vector<Work> all_work(const Options& o, int ranks) {
  require(!o.dtypes.empty(), "--dtypes: got none, expected bf16 or fp16");
  std::vector<Work> all;
  for (const Op op : kOps)
    if (among(o.ops, name_of(op))) all.push_back(work_of(o, op, ranks));
  if (among(o.ops, kTurns)) all.push_back(work_of_turns(o, ranks));
  require(!all.empty(), "--ops: got none, expected ag_gemm, gemm_rs, gemm_ar or turns");
  return all;
}

/// Says in an error what was being done, and prints every rank's: the one that comes first may be
/// of a rank that another's failure led astray.
template <class Body>
void naming(const Rank& rank, const std::string& what, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    fmt::print(stderr, "rank {}: {} error: {} (in {})\n", rank.rank, name_of(e.kind()), e.what(),
               what);
    throw Error(e.kind(), fmt::format("{} (in {})", e.what(), what));
  }
}

void check_shapes(Rank& rank, const Options& o, const Work& work, Report& report) {
  OpCheck check(rank, o.timeout_s);
  for (const auto& [dtype, cases] : work.cases) {
    for (std::size_t at = 0; at < cases.size(); at += kBatch) {
      const auto end = std::min(cases.size(), at + kBatch);
      std::vector<Problem> problems;
      for (std::size_t i = at; i < end; ++i) problems.push_back(cases[i].problem);
      const auto ops =
          make_ops(*rank.group, rank.device, problems, o.timeout_s, share_of(o, rank.ranks, 1));
      for (std::size_t i = at; i < end; ++i) {
        const Drop lost = i / 2 % 2 == 0 ? Drop::input : Drop::reference;
        naming(rank, text_of(cases[i]), [&] {
          report.add(cases[i], check.run(*ops, cases[i], o.drop ? lost : Drop::nothing));
        });
      }
      rank.meet();  // nobody's memory goes while a peer may still use it
    }
    rank.meet();
    if (rank.rank == 0) report.conclude(work.op, dtype, cases);
    rank.meet();
  }
}

std::set<std::string> names_of(const std::vector<PlansByKind>& kinds) {
  std::set<std::string> names;
  for (const PlansByKind& of_problem : kinds)
    for (const auto& [kind, plans] : of_problem) names.insert(kind);
  return names;
}

/// Whether all of its plans may be captured, by ranks that share a device or not.
bool is_captured(const std::vector<PlansByKind>& kinds, const std::string& kind, bool shared) {
  return !shared || std::all_of(kinds.begin(), kinds.end(), [&](const PlansByKind& of_problem) {
    const auto at = of_problem.find(kind);
    return at == of_problem.end() ||
           std::all_of(at->second.begin(), at->second.end(), is_captured_on_shares);
  });
}

/// What every rank found, told by rank 0.
void tell(Rank& rank, const LongRun& run, const StressResult& r, Report& report) {
  const auto troubles = rank.group->all_gather(r.trouble, kMeetSeconds);
  if (rank.rank == 0) report.add(run, r, troubles);
}

void check_long(Rank& rank, const Options& o, const Work& work, Report& report) {
  Stress stress(rank, work.stressed, work.kinds, o.timeout_s, o.drop, share_of(o, rank.ranks, 1));
  rank.meet();
  const bool shared = share_devices(rank.ranks);
  const auto run = [&](Pace pace, long calls) {
    if (calls <= 0) return;
    for (const std::string& kind : names_of(work.kinds)) {
      const bool graphs = pace == Pace::graph || pace == Pace::mixed;
      if (graphs && !is_captured(work.kinds, kind, shared)) {
        if (rank.rank == 0)
          fmt::print("{}: {} {}, not run: a share captures no such calls\n", work.name,
                     name_of(pace), kind);
        continue;
      }
      StressResult r;
      naming(rank, fmt::format("{} {} {}", work.name, name_of(pace), kind),
             [&] { r = stress.run(kind, calls, pace); });
      tell(rank, {work.name, work.stressed_dtype, kind, pace}, r, report);
    }
  };
  run(Pace::eager, o.stress);
  run(Pace::graph, o.stress);
  run(Pace::mixed, o.stress / 4);
  run(Pace::delays, o.straggle);
  rank.meet();
}

/// Two communicators of the same ranks, each on a stream of its own.
void check_pair(Rank& rank, const Options& o, const Work& work, Report& report) {
  std::vector<int> everyone(static_cast<std::size_t>(rank.ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto group = rank.group->subgroup(everyone, kMeetSeconds);
  Rank second = rank;
  second.group = group.get();
  cuda::check(cudaStreamCreateWithFlags(&second.stream, cudaStreamNonBlocking), "a second stream");
  {
    const auto half = share_of(o, rank.ranks, 2);
    Stress one(rank, work.stressed, work.halves, o.timeout_s, o.drop, half);
    Stress two(second, work.stressed, work.halves, o.timeout_s, o.drop, half);
    rank.meet();
    for (const std::string& kind : names_of(work.halves)) {
      std::array<StressResult, 2> results;
      naming(rank, fmt::format("{} pair {}", work.name, kind),
             [&] { results = one.run_beside(two, kind, o.pair); });
      for (int i = 0; i < 2; ++i)
        tell(rank, {work.name, work.stressed_dtype, kind, Pace::pair, 2, i},
             results.at(static_cast<std::size_t>(i)), report);
    }
    rank.meet();
  }
  cudaStreamDestroy(second.stream);
}

/// Ranks that share a device wait for each other there, as users' may not. With fewer queues than
/// streams one rank's work stands behind another's that waits for it. The driver, which has been
/// asked for its devices, reads the setting as it starts, so: once more from the beginning.
void begin_for_shares(char** argv) {
  if (std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") != nullptr) return;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  execv("/proc/self/exe", argv);
}

int run(const Options& o) {
  const int ranks = choose_ranks(o.ranks);
  Report report(ranks, o.seed, o.drop, o.json, o.commit);
  const auto all = all_work(o, ranks);
  const double calls = static_cast<double>(3 * o.stress + 2 * o.straggle + 2 * o.pair);
  const double limit_s = 60 + static_cast<double>(all.size()) * (0.5 * o.shapes + 3e-3 * calls);
  const Watchdog watchdog("gpu_op_check", o.limit_s > 0 ? o.limit_s : limit_s);
  run_ranks(ranks, [&](Rank& rank) {
    cuda::load_gemm_kernels();
    for (const Work& work : all) {
      if (o.shapes > 0 && !work.cases.empty()) check_shapes(rank, o, work, report);
      if (!work.stressed.empty() && (o.stress > 0 || o.straggle > 0))
        check_long(rank, o, work, report);
      if (!work.stressed.empty() && o.pair > 0) check_pair(rank, o, work, report);
    }
  });
  return report.print();
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  // Of captured calls by NCCL. Before any thread; what is set already stays, and is refused later.
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  CLI::App app("Checks the fused ops on the GPUs of this machine against exact integers and fp64");
  Options o;
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU; more share devices)");
  app.add_option("--shapes", o.shapes, "random problems a type")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--stress", o.stress,
                 "calls back to back, of each kind of plan: eager, in a graph, in many")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--straggle", o.straggle, "calls with random delays, of each kind of plan")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--pair", o.pair,
                 "calls on each of two communicators at once, of each kind of plan")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed, "of problems and data")->capture_default_str();
  app.add_option("--only", o.only, "only this case of the problems that the seed gives");
  app.add_option("--ops", o.ops,
                 "of ag_gemm, gemm_rs, gemm_ar; turns: long runs of all ops in turns")
      ->delimiter(',')
      ->check(CLI::IsMember({"ag_gemm", "gemm_rs", "gemm_ar", "turns"}));
  app.add_option("--kinds", o.kinds,
                 "of plans, as the output names them: only problems that have these (default: all "
                 "but nccl by shard, which takes libnccl)")
      ->delimiter(',')
      ->check(CLI::IsMember(known_kinds()));
  app.add_flag("--gated", o.gated, "random problems of ag_gemm: those with swiglu alone");
  app.add_flag("--small", o.small,
               "random problems up to a quarter, those of long runs an eighth as long each way");
  app.add_option("--dtypes", o.dtypes, "of bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  app.add_option("--timeout-s", o.timeout_s, "bound of every wait")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit-seconds", o.limit_s, "ends the process (default: by the work)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--drop", o.drop, "test of the test: a rank's part is lost, must be noticed");
  app.add_option("--json", o.json, "appends JSON lines to this file, - for standard output");
  app.add_option("--commit", o.commit, "goes into the records");
  return run_program("gpu_op_check", app, argc, argv, [&] {
    // A kernel that is loaded by its first launch, the driver's own for copies among them, waits
    // until the calls that are under way have ended.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (share_devices(o.ranks)) begin_for_shares(argv);
    return run(o);
  });
}
