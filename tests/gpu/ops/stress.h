// SPDX-License-Identifier: Apache-2.0
// One rank's part of long runs in which the host does not wait: calls back to back or with random
// delays. The device compares each result with one that was computed before the run.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/rank_ops.h"
#include "device_place.h"
#include "harness.h"
#include "ops/cases.h"
#include "ops/reachable_memory.h"
#include "ops/stall.h"
#include "ops/stress_kernels.h"

namespace tilelace::gpu_test {

/// How calls are made. graph: replays of one graph; mixed: many graphs and eager calls in random
/// order; pair: calls at the same time as calls of a second communicator.
enum class Pace : std::uint8_t { eager, graph, mixed, delays, pair };

constexpr std::string_view name_of(Pace p) {
  switch (p) {
    case Pace::eager: return "eager";
    case Pace::graph: return "graph";
    case Pace::mixed: return "mixed";
    case Pace::pair: return "pair";
    case Pace::delays: return "delays";
  }
  return "?";
}

/// The problems of long runs: an even split, unequal shards, few tokens. k is 1024 per rank, so
/// that communication takes longer than compute. `small`: most extents are divided by 8.
std::vector<Problem> stress_problems(Op op, int ranks, DType dtype, bool small);

/// The name of the kind of run in which the problem changes with every call, and ops take turns.
inline constexpr std::string_view kAllKinds = "every plan in turn";
/// Some plans of every kind, all under the name kAllKinds.
WaysByKind all_kinds(const Problem& problem, const WayRange& range);

struct StressResult {
  long calls = 0;
  std::size_t graphs = 0;  ///< number of graphs replayed, all with the same staging
  double us = 0;           ///< time of a call
  StressTotals totals{};
  std::string trouble;  ///< what was wrong on this rank; empty: nothing
};

class Stress {
 public:
  /// `kinds`: the plans of each problem, equal on every rank. `drop`: zeroes one input of the last
  /// rank. `share`: the share that plans were made for. Throws what the op throws.
  Stress(Rank& rank, const std::vector<Problem>& problems, std::vector<WaysByKind> kinds,
         double timeout_s, bool drop, const cuda::RankShare& share);
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;
  ~Stress();

  /// Makes calls; `calls` is rounded up to whole graphs. Collective.
  StressResult run(const std::string& kind, long calls, Pace pace);
  /// As run with eager calls, while another communicator of the same ranks makes calls on its own
  /// stream. The plans of both must fit the device together.
  std::array<StressResult, 2> run_beside(Stress& other, const std::string& kind, long calls);

 private:
  static constexpr std::size_t kInputs = 7;  // odd, so that each input uses both staging slots
  static constexpr std::size_t kOuts = 4;
  struct Load {
    std::unique_ptr<test::Operands> operands;  ///< each input is made here, then copied
    std::array<void*, kInputs> inputs{}, expected{};
    std::vector<CudaWay> ways;  ///< plans of the kind that is run
  };
  struct Out {
    void* data = nullptr;
    cudaEvent_t ready = nullptr, checked = nullptr;
    bool used = false;
  };

  void* make(std::size_t bytes);
  Load load_for(const Problem& p, bool drop);
  void choose(const std::string& kind);
  void start(const std::string& kind);
  /// Begins to time and watch the work that follows in the stream.
  void begin(const std::string& name, bool counts);
  /// Waits for `calls` calls and ends timing.
  StressResult stop(long calls);
  /// What the stall watch gets. `counts`: the n-th counted call is call n, so it can be described.
  [[nodiscard]] Watched watched(const std::string& name, bool counts) const;
  [[nodiscard]] const Load& load_of(long call) const;
  [[nodiscard]] const Plan& plan_of(long call) const;
  /// Whether peers can reach this call's results.
  [[nodiscard]] bool is_reachable(long call) const { return call / block_ % 2 == 0; }
  [[nodiscard]] std::string text_of(long call) const;
  void delay();
  void enqueue(long call) { enqueue_burst(call, 1); }
  /// Enqueues at most kOuts calls with nothing between them in the stream, so that a call's kernels
  /// may overlap the previous call. The checks follow the last call.
  void enqueue_burst(long first, long calls);
  void launch(long call);
  void watch(long call);
  void join();
  using Graph = std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)>;
  [[nodiscard]] Graph capture(long first, long calls);
  /// Each of these enqueues about `calls` calls and returns their number.
  long enqueue_eager(long calls, bool delays);
  long enqueue_graph(long calls);
  long enqueue_mixed(long calls);
  [[nodiscard]] std::string text_of(const StressTotals& t, long calls) const;

  Rank& rank_;
  double timeout_s_;
  std::vector<WaysByKind> kinds_;
  std::vector<void*> all_;
  DevicePlace place_;
  std::vector<Load> loads_;
  std::vector<std::size_t> running_;  // indices of loads that have plans of the kind that is run
  long block_ = 1;                    // number of consecutive calls with one problem and plan
  std::unique_ptr<ReachableMemory> reachable_;
  std::array<Out, kOuts> outs_;
  StressTotals* totals_ = nullptr;
  cudaStream_t checks_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::mt19937_64 rng_;
  std::vector<Graph> graphs_;  // graphs of the current run
  std::unique_ptr<cuda::RankOps> ops_;
  std::unique_ptr<StallWatch> stall_;
  std::optional<StallWatch::Scope> watching_;
  comm::Flag started_ = 0;  // number of calls counted before the run
};

}  // namespace tilelace::gpu_test
