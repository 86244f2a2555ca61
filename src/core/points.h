// SPDX-License-Identifier: Apache-2.0
// Named points of a call, where tests delay, stop or kill a rank. Nothing happens there otherwise.
#pragma once

namespace tilelace::points {

/// What a test does at a point. Set it before the ranks start.
using Hook = void (*)(const char* point, int rank);
inline Hook hook = nullptr;

/// Tests set it: every rank fills its slot with a NaN pattern when a call is done with it (where no
/// peer may still read it, so not under pull). Data that is read too late is then wrong data.
inline bool poison_slots = false;
constexpr int kPoison = 0xff;

/// What a prepare does for each problem.
inline constexpr const char* kPrepared = "prepare.problem";

/// All points of a call, in the order in which it meets them.
inline constexpr const char* kNames[] = {
    "call.enter",          "copy.before_header",   "copy.before_wait",     "copy.before_data",
    "copy.before_flag",    "compute.before_wait",  "compute.after_wait",   "compute.before_product",
    "compute.before_flag", "compute.before_admit", "compute.before_store", "call.leave"};

inline void pass(const char* point, int rank) {
  if (hook != nullptr) hook(point, rank);
}

}  // namespace tilelace::points
