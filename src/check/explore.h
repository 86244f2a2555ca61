// SPDX-License-Identifier: Apache-2.0
// Runs every role's list of every rank over consecutive calls. Lists are fixed and flags only grow,
// so one greedy run decides deadlock, and happens-before decides races for all other runs.
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
  int resident = 0;        ///< actors of a rank that run at a time, in launch order; 0: all
  std::uint64_t seed = 0;  ///< who runs first; 0: rank 0 gets ahead as far as it can
  std::uint32_t first_epoch = 1;
  Mutant mutant = Mutant::none;
  int lost = -1;           ///< the step of rank 0's copy role that is left out
  std::uint32_t idle = 0;  ///< calls since flags and lines were raised last

  bool operator==(const CheckConfig&) const = default;
};

std::ostream& operator<<(std::ostream&, const CheckConfig&);
std::string to_string(const CheckConfig&);
std::optional<std::string> legal(const CheckConfig&);

struct CheckReport {
  std::vector<Finding> findings;  ///< the first few; the run ends early when there are many
  bool mutated = false;           ///< the mutant found something to bend
  std::int64_t steps = 0;
  std::int64_t tiles = 0;
  std::int64_t transfers = 0;
  std::int64_t flags = 0;  ///< signals, headers included
  std::int64_t work = 0;   ///< entries of clocks, and cells, that were looked at
};

/// Throws a usage error unless legal.
CheckReport check(const CheckConfig& config);

/// What runs of the same calls share.
struct PreparedCalls;

/// Runs of the same calls, one after the other, in other orders and with other residencies. The
/// first that ends without findings is judged for all of them, as long as calls stay the same: in
/// it each flag has one value at each wait that every order has, so what happens before what is
/// the same in all of them, and with it races, lost and doubled work (a test tries that with
/// thousands of lists, broken ones, too). The others are played for deadlocks.
class Checker {
 public:
  CheckReport check(const CheckConfig& config);

 private:
  std::shared_ptr<PreparedCalls> prepared_;
};

}  // namespace tilelace::check
