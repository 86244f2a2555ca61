// SPDX-License-Identifier: Apache-2.0
// Functions that are shared by the two ways of running ranks: as threads and as processes.
#pragma once
#include <optional>
#include <string>

#include "ranks.h"
#include "tilelace/error.h"

namespace tilelace::cli {

enum class MessageKind : char { data = 'm', failed = 'f', done = 'd' };

/// Ranks count as stalled if none of them sends a message for this many seconds. This limit is
/// longer than the group's timeout, since ranks also compute.
inline double stall_seconds(const RanksOptions& options) { return options.group.timeout_s + 120; }
/// After a rank fails, the processes of the other ranks have this many seconds to end themselves.
constexpr double kGraceSeconds = 1.5;

/// Runs the work. Returns its error, if it throws one.
std::optional<Error> guarded(const RankWork& work, Communicator& member, const Send& send);

/// Picks, among the errors of several ranks, the one that most likely caused the others.
class FirstCause {
 public:
  void add(const Error& error);
  [[nodiscard]] bool any() const { return best_.has_value(); }
  void throw_if_any() const;

 private:
  std::optional<Error> best_;
};

std::string pack_error(const Error& error);
Error unpack_error(const std::string& text);

void run_threads(const RanksOptions&, const RankWork&, const Listener&);
void run_processes(const RanksOptions&, const RankWork&, const Listener&);

}  // namespace tilelace::cli
