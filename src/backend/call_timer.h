// SPDX-License-Identifier: Apache-2.0
// Times a rank's calls on its GPU: replays graphs of calls between two events.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>

namespace tilelace {

/// Calls per graph.
inline constexpr int kGraphCalls = 16;

/// Number of graph replays that fill `time_us` if one call takes `call_us`; 1 to 1000.
inline int replays(double time_us, double call_us) {
  return static_cast<int>(std::clamp(std::ceil(time_us / (call_us * kGraphCalls)), 1.0, 1e3));
}

/// A stream of one device, and graphs of calls that are timed on it. Used by one thread.
class CallTimer {
 public:
  CallTimer() = default;
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;
  virtual ~CallTimer() = default;

  [[nodiscard]] virtual void* stream() const = 0;
  /// Captures call(0) .. call(calls - 1) as graph `number`.
  /// Errors: system, and the errors of the calls.
  virtual void capture(std::size_t number, int calls, const std::function<void(int)>& call) = 0;
  /// Enqueues `load` replays to warm up, then `timed` replays between two events. Error: system.
  virtual void replay(std::size_t number, int load, int timed) = 0;
  /// Time of all timed replays together, which must have finished. Error: system.
  [[nodiscard]] virtual double timed_us() const = 0;
  /// Drops the graphs.
  virtual void clear() = 0;
};

/// Errors: usage (a build without CUDA), system.
std::unique_ptr<CallTimer> make_call_timer(int device);

}  // namespace tilelace
