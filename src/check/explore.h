// SPDX-License-Identifier: Apache-2.0
// Runs the recorded steps of every role of every rank over consecutive calls. A role's steps are
// fixed and flags only grow. So one greedy run shows whether any run can deadlock, and its
// happens-before shows whether any run has races.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check/call.h"
#include "check/finding.h"
#include "check/mutate.h"

namespace tilelace::check {

struct CheckConfig {
  std::vector<CallSpec> calls;
  int ranks = 1;
  int workers = 1;
  int resident = 0;        ///< number of a rank's actors that run at once, in launch order; 0: all
  std::uint64_t seed = 0;  ///< seed of a random order; 0: rank 0 runs as far ahead as it can
  std::uint32_t first_epoch = 1;
  Mutant mutant = Mutant::none;
  int lost = -1;           ///< index of the step to leave out of rank 0's copy role; -1: none
  std::uint32_t idle = 0;  ///< how many calls, just before the first, raised no flags or lines

  bool operator==(const CheckConfig&) const = default;
};

std::ostream& operator<<(std::ostream&, const CheckConfig&);
std::string to_string(const CheckConfig&);
std::optional<std::string> legal(const CheckConfig&);

struct CheckReport {
  std::vector<Finding> findings;  ///< only the first few; the run ends early if there are many
  bool mutated = false;           ///< whether the mutant changed anything
  std::int64_t steps = 0;
  std::int64_t tiles = 0;
  std::int64_t transfers = 0;
  std::int64_t flags = 0;  ///< number of signals, headers included
  std::int64_t work = 0;   ///< number of clock entries and cells that the checker read
};

/// Throws a usage error if legal() has a reason against the config.
CheckReport check(const CheckConfig& config);

/// State that runs of the same calls share.
struct PreparedCalls;

/// Runs the same calls many times, in different orders and with different numbers of resident
/// actors. After one run without findings, further runs only look for deadlocks. In any order, a
/// wait ends with the same value of its flag. So happens-before is the same, and so are races, lost
/// work and doubled work (tests show this on thousands of lists, including faulty ones). Runs with
/// a mutant are always checked in full. If calls change, checking starts again.
class Checker {
 public:
  CheckReport check(const CheckConfig& config);

 private:
  std::shared_ptr<PreparedCalls> prepared_;
};

}  // namespace tilelace::check
