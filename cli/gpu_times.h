// SPDX-License-Identifier: Apache-2.0
// What calls of GPU ranks take: replays of graphs of calls, each sample after a load of its own
// kind, all ranks at once, the slowest rank's.
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

/// Ranks that meet outside of calls wait so long for each other.
constexpr double kMeetSeconds = 60;

/// The i-th call of a graph.
using GpuCall = std::function<void(int)>;

using plan::CallTime;

/// Collective, of ranks anywhere: the largest of all their numbers, on each.
double most_of(Communicator& member, double mine);

/// A rank's side. All but stream() is collective, with the same calls in the same order.
class GpuTimes {
 public:
  /// `tick` is called now and then; graphs have so many calls. Error: system.
  GpuTimes(Communicator& member, std::function<void()> tick, int calls = kGraphCalls);

  [[nodiscard]] void* stream() const { return timer_->stream(); }
  /// As plan::fastest_of.
  plan::Halving fastest(const std::vector<GpuCall>& calls, std::span<const double> predicted_us);
  /// `count` samples of each call, in shuffled rounds. `warmup`: replays before each, at least.
  std::vector<std::vector<double>> samples(const std::vector<GpuCall>& calls, int count,
                                           int warmup);
  /// What the host is busy with an eager call, one behind the other, while the launch queue has
  /// room. Ranks take turns, for threads of one process would wait for each other in the driver.
  double host_us(const std::function<void()>& call);

 private:
  /// Runs two calls, captures the rest; what a call takes, about.
  double prepare(std::size_t number, const GpuCall& call);
  double sample(std::size_t number, int load, int timed);

  Communicator& member_;
  std::function<void()> tick_;
  int calls_;
  std::unique_ptr<CallTimer> timer_;
};

}  // namespace tilelace::cli
