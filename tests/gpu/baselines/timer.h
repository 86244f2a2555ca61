// SPDX-License-Identifier: Apache-2.0
// How a way of doing a row is timed: graph replays of several calls, each sample after a load of
// its own kind, all ranks at once.
#pragma once
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/nccl.h"
#include "harness.h"

namespace tilelace::gpu_test {

/// The bound of what runs on the device; below that of meetings, so that NCCL is named first.
constexpr double kFinishSeconds = 20;
constexpr double kLoadMs = 40;

using Graph = std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)>;

/// beside: a product and the op's traffic, which do not wait for each other. eager: any of them
/// without a graph. Both are timed, not compared.
enum class Method : std::uint8_t { gemm, collective, unfused, beside, medium, fused, eager };

struct Variant {
  std::string name;
  std::function<void(int)> launch;  ///< the i-th call, into the rank's stream
  Method method = Method::gemm;
  cuda::NcclBuffer buffer = cuda::NcclBuffer::plain;
  /// Waits for what is in the stream, bounded; empty: NcclGroup's.
  std::function<void()> finish;
  /// Where the i-th call's results are; empty: where the operands say.
  std::function<std::byte*(int)> result;
  std::size_t index = 0;  ///< among its makers' plans
  bool eager = false;     ///< launched call by call instead of replayed
  Graph graph{nullptr, cudaGraphExecDestroy};
  int calls = 0;        ///< in the graph; even: no replay needs an align that meets
  double quick_us = 0;  ///< a call, about; the same on every rank
  /// Us a call, the slowest rank's.
  std::vector<double> samples;

  [[nodiscard]] double median() const;
  /// p90 / p10.
  [[nodiscard]] double spread() const;
};

/// What a sample is made of.
struct Lengths {
  double load_ms = kLoadMs;
  double sample_ms = 8;
};

/// All calls are collective, with the same variants in the same order.
class Timer {
 public:
  Timer(Rank& rank, cuda::NcclGroup& nccl);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  /// Runs two calls, captures it, replays it twice. `guess_us`: of a call.
  void prepare(Variant& v, double guess_us);
  /// Until clocks are what load leaves: whoever is timed first would gain.
  void warm(const Variant& v);
  /// One sample, us a call on the slowest rank.
  double sample(const Variant& v, const Lengths& lengths);
  /// Samples of all, shuffled, into their lists.
  void rounds(std::vector<Variant>& variants, int count, const Lengths& lengths);
  /// A look at each, forwards and backwards, as clocks drift while they run; then `rounds` samples
  /// of the `finalists` best. Those stay, fastest first.
  void select(std::vector<Variant>& variants, std::size_t finalists, int rounds,
              const Lengths& lengths);
  /// One replay, until it is done.
  void replay(const Variant& v);

 private:
  double run(const Variant& v, int load, int timed);
  void capture(Variant& v);
  /// All calls of the graph.
  void enqueue(const Variant& v);
  void finish(const Variant& v);

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::mt19937 order_{7};  // the same on every rank
};

}  // namespace tilelace::gpu_test
