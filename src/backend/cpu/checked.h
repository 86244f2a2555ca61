// SPDX-License-Identifier: Apache-2.0
// The checked mode: records real calls of CPU ranks, which the protocol checker then judges.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "check/record.h"

namespace tilelace {

/// State that the checked ranks of one process share.
class CheckedGroup {
 public:
  CheckedGroup(int ranks, int workers);

  /// Runs the role of one actor (a rank's thread), `role(verbs)`, and reports every step to the
  /// monitor. `call` counts from 0; all actors of a rank end a call before any begins the next.
  template <class Schedule, class Verbs, class Role>
  void act(const Schedule& s, int rank, int index, std::int64_t call, Verbs& verbs, Role role) {
    const int actor = check::actor_of(rank, index, workers_);
    monitor_.begin_call(actor, call, plan_of(check::spec_of(s), s.workers));
    auto seen = check::watched(verbs, monitor_, actor);
    role(seen);
    monitor_.end_call(actor);
  }

  [[nodiscard]] std::vector<std::string> findings() const;
  /// Stops checking. Called when a call ends with an error, since its records are then incomplete.
  void stop(const std::string& reason);
  [[nodiscard]] bool stopped() const;

 private:
  std::shared_ptr<const check::CallPlan> plan_of(const check::CallSpec&, int workers);

  int ranks_;
  int workers_;
  check::SharedMonitor monitor_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const check::CallPlan>> plans_;
  std::string stopped_;
};

}  // namespace tilelace
