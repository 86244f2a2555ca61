// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one child and as a child each. The parent never calls CUDA, so that children
// may: it forks them before their first call.
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
  int ranks = 0;  ///< 0: one a GPU
  std::string model = "all";
  std::string only;
  std::string json;
  std::string commit = "unknown";
  int cycles = 200;
  int gib = 8;
};

/// One rank while it makes a check.
struct Member {
  Group& group;
  Gpu& gpu;
  const Options& options;
  std::string model;
  int ranks_a_gpu = 1;
  std::vector<int> spare;  ///< sockets to the other survivors, by their place; may be empty
  int out = -1;            ///< findings go here

  [[nodiscard]] int rank() const { return group.rank(); }
  [[nodiscard]] int ranks() const { return group.ranks(); }
  void barrier() const { group.all_gather("", kTimeout_s); }
  /// Nothing wrong: an empty text.
  void say(const std::string& check, const std::string& wrong, const Figures& figures = {}) const;
  /// As say, of a check that fewer ranks make.
  void say_of(int how_many, const std::string& check, const std::string& wrong,
              const Figures& figures = {}) const;
};

struct Check {
  const char* name;
  void (*run)(Member& member);
  bool threads;        ///< whether ranks may be threads
  bool hidden;         ///< made also where each rank sees its own GPU only
  bool spare_sockets;  ///< whether survivors need sockets for a group of their own
  int least_ranks;
};

/// Makes one check as one rank; whatever goes wrong becomes a finding.
void run_member(const Check& check, Member& member);

/// What the machine has, as a child of ours sees it. Error: system (no driver, no GPU).
Machine look_at_machine();

/// Runs the checks with ranks as "threads", "processes", or "hidden": processes that see one GPU.
void run_checks(const std::string& model, const std::vector<Check>& checks, const Options& options,
                const Machine& machine, Report& report);

}  // namespace tilelace::comm::test
