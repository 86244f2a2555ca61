// SPDX-License-Identifier: Apache-2.0
// gpu_op_check: long runs of the fused ops on the GPUs of one process, a thread a rank: calls of
// every kind of plan back to back, in graphs, with delays, on two communicators at once. Exit 0:
// all right, 1: a result was wrong, 2: usage, 3: a wait expired or the system.
#include <algorithm>
#include <numeric>
#include <set>

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"
#include "ops/session.h"
#include "ops/stress.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::string_view kTurns = "turns";  // of --ops: all of them, one after the other

struct Options : SessionOptions {
  Options() { ops.emplace_back(kTurns); }
  long stress = 0, straggle = 0, pair = 0;
};

/// Of an op: everything that the ranks' threads share; made before they start.
struct Work {
  std::string name;  ///< of the op, or kTurns
  DType dtype = DType::bf16;
  std::vector<Problem> problems;
  std::vector<WaysByKind> kinds, halves;  ///< of each of them; of half a device
};

DType dtype_of(const Options& o) {
  return among(o.dtypes, name_of(DType::bf16)) ? DType::bf16 : DType::fp16;
}

Work work_of(const Options& o, Op op, int ranks) {
  Work work{std::string(name_of(op)), dtype_of(o), {}, {}, {}};
  work.problems = stress_problems(op, ranks, work.dtype, o.small);
  for (const Problem& p : work.problems) {
    work.kinds.push_back(ways_by_kind(p, ways_of(o, ranks, 1)));
    work.halves.push_back(ways_by_kind(p, ways_of(o, ranks, 2)));
  }
  require(std::any_of(work.kinds.begin(), work.kinds.end(),
                      [](const WaysByKind& kinds) { return !kinds.empty(); }),
          "--kinds: got none that the problems of {}'s long runs have, expected some", name_of(op));
  return work;
}

/// Long runs whose calls change the op after every three problems.
Work work_of_turns(const Options& o, int ranks) {
  Work work{std::string(kTurns), dtype_of(o), {}, {}, {}};
  Options all = o;
  all.kinds.clear();
  for (const Op op : kOps) {
    for (Problem& p : stress_problems(op, ranks, work.dtype, o.small)) {
      work.kinds.push_back(all_kinds(p, ways_of(all, ranks, 1)));
      work.halves.push_back(all_kinds(p, ways_of(all, ranks, 2)));
      work.problems.push_back(std::move(p));
    }
  }
  return work;
}

std::vector<Work> all_work(const Options& o, int ranks) {
  std::vector<Work> all;
  for (const Op op : kOps)
    if (among(o.ops, name_of(op))) all.push_back(work_of(o, op, ranks));
  if (among(o.ops, kTurns)) all.push_back(work_of_turns(o, ranks));
  return all;
}

std::set<std::string> names_of(const std::vector<WaysByKind>& kinds) {
  std::set<std::string> names;
  for (const WaysByKind& of_problem : kinds)
    for (const auto& [kind, ways] : of_problem) names.insert(kind);
  return names;
}

/// Whether all of its plans may be captured, by ranks that share a device or not.
bool is_captured(const std::vector<WaysByKind>& kinds, const std::string& kind, bool shared) {
  return !shared || std::all_of(kinds.begin(), kinds.end(), [&](const WaysByKind& of_problem) {
    const auto at = of_problem.find(kind);
    return at == of_problem.end() ||
           std::all_of(at->second.begin(), at->second.end(),
                       [](const CudaWay& way) { return is_captured_on_shares(way.plan); });
  });
}

/// What every rank found, told by rank 0.
void tell(Rank& rank, const LongRun& run, const StressResult& r, Report& report) {
  const auto troubles = rank.group->all_gather(r.trouble, kMeetSeconds);
  if (rank.rank == 0) report.add(run, r, troubles);
}

void check_long(Rank& rank, const Options& o, const Work& work, Report& report) {
  Stress stress(rank, work.problems, work.kinds, o.timeout_s, o.drop, share_of(o, rank.ranks, 1));
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
      tell(rank, {work.name, work.dtype, kind, pace}, r, report);
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
    Stress one(rank, work.problems, work.halves, o.timeout_s, o.drop, half);
    Stress two(second, work.problems, work.halves, o.timeout_s, o.drop, half);
    rank.meet();
    for (const std::string& kind : names_of(work.halves)) {
      std::array<StressResult, 2> results;
      naming(rank, fmt::format("{} pair {}", work.name, kind),
             [&] { results = one.run_beside(two, kind, o.pair); });
      for (int i = 0; i < 2; ++i)
        tell(rank, {work.name, work.dtype, kind, Pace::pair, 2, i},
             results.at(static_cast<std::size_t>(i)), report);
    }
    rank.meet();
  }
  cudaStreamDestroy(second.stream);
}

Session session_of(const Options& o, int ranks) {
  auto all = all_work(o, ranks);
  const double calls = static_cast<double>(3 * o.stress + 2 * o.straggle + 2 * o.pair);
  const double limit_s = 60 + 3e-3 * calls * static_cast<double>(all.size());
  return {limit_s, [&o, all = std::move(all)](Rank& rank, Report& report) {
            for (const Work& work : all) {
              if (o.stress > 0 || o.straggle > 0) check_long(rank, o, work, report);
              if (o.pair > 0) check_pair(rank, o, work, report);
            }
          }};
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app(
      "Calls the fused ops on the GPUs of this machine many times and checks every result");
  Options o;
  add_options(app, o, {"ag_gemm", "gemm_rs", "gemm_ar", "turns"});
  app.add_option("--stress", o.stress,
                 "calls back to back, of each kind of plan: eager, in a graph, in many")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--straggle", o.straggle, "calls with random delays, of each kind of plan")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--pair", o.pair,
                 "calls on each of two communicators at once, of each kind of plan")
      ->check(CLI::NonNegativeNumber);
  return run_session("gpu_op_check", app, argc, argv, o, [&](int ranks) {
    tilelace::require(o.stress > 0 || o.straggle > 0 || o.pair > 0,
                      "--stress, --straggle, --pair: got no calls, expected some");
    return session_of(o, ranks);
  });
}
