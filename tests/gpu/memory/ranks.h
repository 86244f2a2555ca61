// SPDX-License-Identifier: Apache-2.0
// Runs ranks as threads of one child process, or each rank as a child process of its own. The
// parent never calls CUDA, so that its forked children can.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group.h"
#include "gpu.h"
#include "report.h"

namespace tilelace::comm::test {

constexpr double kTimeout_s = 20;

struct Options {
  int ranks = 0;  ///< number of ranks; 0: one per GPU
  std::string model = "all";
  std::string only;
  std::string json;
  std::string commit = "unknown";
  int cycles = 200;
  int gib = 8;
};

/// A rank that makes a check.
struct Member {
  Group& group;
  Gpu& gpu;
  const Options& options;
  std::string model;
  int ranks_a_gpu = 1;
  std::vector<int> spare;  ///< sockets to the ranks that outlive check_death, by rank; may be empty
  int out = -1;            ///< descriptor that findings are written to

  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int ranks() const { return group.ranks(); }
  void barrier() const { group.all_gather("", kTimeout_s); }
  /// Reports the result of a check; empty text: nothing is wrong.
  void say(const std::string& check, const std::string& wrong, const Figures& figures = {}) const;
  /// As say, for a check that only some ranks make.
  void say_of(int how_many, const std::string& check, const std::string& wrong,
              const Figures& figures = {}) const;
};

struct Check {
  const char* name;
  void (*run)(Member& member);
  bool threads;        ///< whether ranks may be threads
  bool hidden;         ///< whether the check is also made if each rank sees only its own GPU
  bool spare_sockets;  ///< whether ranks that outlive a peer need sockets for a new group
  int least_ranks;
};

/// Makes one check as one rank. Every error becomes a finding.
void run_member(const Check& check, Member& member);

/// Facts about the machine, as a forked child sees it. Error: system (no driver, no GPU).
Machine look_at_machine();

/// Runs the checks. `model`: "threads", "processes", or "hidden" (processes that see one GPU each).
void run_checks(const std::string& model, const std::vector<Check>& checks, const Options& options,
                const Machine& machine, Report& report);

}  // namespace tilelace::comm::test
