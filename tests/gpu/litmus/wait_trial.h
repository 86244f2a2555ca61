// SPDX-License-Identifier: Apache-2.0
// One trial: a good call, then a call in which a rank is missing or the host aborts. Checks how the
// other ranks notice that. Ranks are threads or processes; both run the same code.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/group.h"

namespace tilelace::gpu_test {

enum class Fault : std::uint8_t {
  absent,  ///< the victim, a thread, never launches
  exits,   ///< the victim, a process, ends before it launches
  stops,   ///< the victim, a process, gets SIGSTOP before it launches
  abort    ///< all ranks launch and wait in vain until rank 0's host aborts
};
const char* name_of(Fault fault);

constexpr double kAbortSeconds = 0.1;  ///< all kernels must end this soon after abort()
constexpr double kSlackSeconds = 0.5;  ///< an error may come this much later than bound_s

struct Trial {
  Fault fault = Fault::absent;
  int rank = 0;
  int ranks = 1;
  int victim = 0;
  double bound_s = 2;
  /// What the victim does instead of its launch.
  std::function<void()> strike;
  /// Makes a new group of the ranks that still run. This rank's number may differ in that group.
  std::function<std::unique_ptr<comm::Group>()> regroup;
};

/// A rank's report, which is sent through a pipe.
struct Report {
  int rank = 0;
  bool good = false;
  bool watches = false;  ///< whether kernels read the group's abort word themselves
  double seconds = 0;    ///< time from the launch to the error
  double aborted_at = 0;
  double ended_at = 0;
  std::array<char, 400> text = {};

  void say(const std::string& words);
  [[nodiscard]] std::string words() const { return text.data(); }
};
static_assert(std::is_trivially_copyable_v<Report>);

/// Runs this rank's part. Unexpected errors are in the report.
Report run_trial(const Trial& trial, std::unique_ptr<comm::Group> group);

/// Runs all ranks of a trial as threads, or as forked processes (no CUDA call may come before).
/// Returns the ranks' reports. A victim that is a process sends no report.
std::vector<Report> run_thread_trial(Fault fault, int ranks, int victim, double bound_s);
std::vector<Report> run_process_trial(Fault fault, int ranks, int victim, double bound_s);

}  // namespace tilelace::gpu_test
