// SPDX-License-Identifier: Apache-2.0
// The role loops' verb calls as lists, and verbs that tell a Monitor what real ones do.
#pragma once
#include <mutex>
#include <vector>

#include "check/monitor.h"

namespace tilelace::check {

/// Steps of every actor of a rank in a call: copy, then each worker.
std::vector<StepList> record(const CallPlan& plan, int rank);

/// A Monitor that several threads feed.
struct SharedMonitor {
  explicit SharedMonitor(const Monitor::Setup& setup) : monitor(setup) {}
  std::mutex mutex;
  Monitor monitor;
};

/// Real verbs under the checker's eyes: run_copy(schedule, verbs) with verbs = watched(real, ...).
/// The actor must have begun the call.
template <class Verbs>
auto watched(Verbs& real, SharedMonitor& shared, int actor) {
  const auto note = [&shared, actor](const Step& step) {
    const std::lock_guard lock(shared.mutex);
    shared.monitor.on(actor, step);
  };
  return NotedVerbs<Verbs, decltype(note)>(real, note);
}

}  // namespace tilelace::check
