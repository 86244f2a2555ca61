// SPDX-License-Identifier: Apache-2.0
// One trial: a good call, then one in which a rank is missing (or the host aborts), and what the
// other ranks see of it. Ranks are threads or processes; this file does not know which.
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
  absent,  ///< a thread never launches
  exits,   ///< a process ends before it launches
  stops,   ///< a process stops before it launches
  abort    ///< all launch and wait for what never comes; rank 0's host aborts
};
const char* name_of(Fault fault);

constexpr double kAbortSeconds = 0.1;  ///< from abort() to the end of all ranks' kernels
constexpr double kSlackSeconds = 0.5;  ///< beyond a wait's bound, to see and report it

struct Trial {
  Fault fault = Fault::absent;
  int rank = 0;
  int ranks = 1;
  int victim = 0;
  double bound_s = 2;
  /// What the victim does in place of its launch.
  std::function<void()> strike;
  /// A new group of those who are left, and this rank's place in it.
  std::function<std::unique_ptr<comm::Group>()> regroup;
};

/// What a rank has to say; goes through a pipe.
struct Report {
  int rank = 0;
  bool good = false;
  bool watches = false;  ///< kernels read the group's abort word themselves
  double seconds = 0;    ///< from the launch to the error
  double aborted_at = 0;
  double ended_at = 0;
  std::array<char, 400> text = {};

  void say(const std::string& words);
  [[nodiscard]] std::string words() const { return text.data(); }
};
static_assert(std::is_trivially_copyable_v<Report>);

/// Runs this rank's part; errors that should not be are in the report.
Report run_trial(const Trial& trial, std::unique_ptr<comm::Group> group);

/// All ranks of a trial as threads, or as processes that are forked here (no CUDA before). The
/// reports of all ranks but the victim.
std::vector<Report> run_thread_trial(Fault fault, int ranks, int victim, double bound_s);
std::vector<Report> run_process_trial(Fault fault, int ranks, int victim, double bound_s);

}  // namespace tilelace::gpu_test
