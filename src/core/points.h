// SPDX-License-Identifier: Apache-2.0
// Named points in a call at which tests delay, stop or kill a rank. Outside of tests they do
// nothing.
#pragma once

namespace tilelace::points {

/// A function that a test runs at points. Set `hook` before the ranks start.
using Hook = void (*)(const char* point, int rank);
inline Hook hook = nullptr;

/// Set by tests. After a call every rank then fills its slot with NaNs, so that a late read gives
/// wrong data. Slots of transport pull are not filled, since a peer may still read them.
inline bool poison_slots = false;
constexpr int kPoison = 0xff;

/// A point in prepare that is reached once for each problem.
inline constexpr const char* kPrepared = "prepare.problem";

/// All points of a call: at its beginning, in its copy role, in its compute role, at its end.
inline constexpr const char* kNames[] = {
    "call.enter",          "copy.before_header",   "copy.before_wait",     "copy.before_data",
    "copy.before_flag",    "compute.before_wait",  "compute.after_wait",   "compute.before_product",
    "compute.before_flag", "compute.before_admit", "compute.before_store", "call.leave"};

inline void pass(const char* point, int rank) {
  if (hook != nullptr) hook(point, rank);
}

}  // namespace tilelace::points
