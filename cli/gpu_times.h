// SPDX-License-Identifier: Apache-2.0
// Times calls of GPU ranks. A sample replays a graph of calls on all ranks at once, right after
// warm-up replays of the same graph. The sample's value is the time per call on the slowest rank.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/call_timer.h"
#include "plan/tuning/halving.h"
#include "tilelace/communicator.h"

namespace tilelace::cli {

using tilelace::kGraphCalls;

/// The longest that ranks wait for each other outside of calls.
constexpr double kMeetSeconds = 60;

/// Makes the i-th call of a graph.
using GpuCall = std::function<void(int)>;

using plan::CallTime;

/// Collective; for CPU and GPU ranks. The largest of the numbers that the ranks pass as `mine`.
double most_of(Communicator& member, double mine);

/// One rank's part of the timing. All members but stream() are collective: every rank makes the
/// same calls in the same order.
class GpuTimes {
 public:
  /// `tick` is called after each sample; a graph has `calls` calls. Error: system.
  GpuTimes(Communicator& member, std::function<void()> tick, int calls = kGraphCalls);

  [[nodiscard]] void* stream() const { return timer_->stream(); }
  /// Finds the fastest call with plan::fastest_of.
  plan::Halving fastest(const std::vector<GpuCall>& calls, std::span<const double> predicted_us);
  /// Takes `count` samples of each call, in random order; >= `warmup` replays precede each sample.
  std::vector<std::vector<double>> samples(const std::vector<GpuCall>& calls, int count,
                                           int warmup);
  /// The time that the host spends on an eager call when calls follow one another and the launch
  /// queue has room. Ranks take turns, since threads of one process would wait for each other in
  /// the driver.
  double host_us(const std::function<void()>& call);

 private:
  /// Runs two calls eagerly and captures a graph of calls. Returns the approximate time of a call.
  double prepare(std::size_t number, const GpuCall& call);
  double sample(std::size_t number, int load, int timed);

  Communicator& member_;
  std::function<void()> tick_;
  int calls_;
  std::unique_ptr<CallTimer> timer_;
};

}  // namespace tilelace::cli
