// SPDX-License-Identifier: Apache-2.0
// Records calls of verbs (schedule/verbs.h) as lists; reports calls of real verbs to a Monitor.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "check/monitor.h"

namespace tilelace::check {

/// Records the steps of every actor of a rank in a call: the copy role, then each worker.
std::vector<StepList> record(const CallPlan& plan, int rank);

/// A Monitor fed by several threads.
class SharedMonitor {
 public:
  explicit SharedMonitor(const Monitor::Setup& setup) : monitor_(setup) {}

  void begin_call(int actor, Index call, const std::shared_ptr<const CallPlan>& plan) {
    const std::lock_guard lock(mutex_);
    monitor_.begin_call(actor, call, plan);
  }
  void end_call(int actor, bool whole = true) {
    const std::lock_guard lock(mutex_);
    monitor_.end_call(actor, whole);
  }
  void on(int actor, const Step& step) {
    const std::lock_guard lock(mutex_);
    monitor_.on(actor, step);
  }
  [[nodiscard]] std::vector<Finding> findings() const {
    const std::lock_guard lock(mutex_);
    return monitor_.findings();
  }

 private:
  mutable std::mutex mutex_;
  Monitor monitor_;
};

/// Reports each step of one actor to a SharedMonitor.
struct WatchNote {
  SharedMonitor* shared = nullptr;
  int actor = 0;
  void operator()(const Step& step) const { shared->on(actor, step); }
};

/// Wraps real verbs so that the checker gets a report of each call of a verb. Use: `auto v =
/// watched(real, shared, actor); run_copy(s, v);` between begin_call and end_call of that actor.
/// The actor must begin call c + 1 only after all actors of its rank have ended call c.
template <class Verbs>
NotedVerbs<Verbs, WatchNote> watched(Verbs& real, SharedMonitor& shared, int actor) {
  return {real, WatchNote{&shared, actor}};
}

}  // namespace tilelace::check
