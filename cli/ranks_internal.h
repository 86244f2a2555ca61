// SPDX-License-Identifier: Apache-2.0
// Shared by the two ways of running ranks.
#pragma once
#include <optional>
#include <string>

#include "ranks.h"
#include "tilelace/error.h"

namespace tilelace::cli {

enum class MessageKind : char { data = 'm', failed = 'f', done = 'd' };

/// How long a rank may be silent before it counts as stalled. Its own waits are bounded by the
/// group's timeout; this is for computing.
inline double stall_seconds(const RanksOptions& options) { return options.group.timeout_s + 120; }
/// How long the others get to notice a failure before they are ended.
constexpr double kGraceSeconds = 1.5;

/// Runs the work; nothing when it went well.
std::optional<Error> guarded(const RankWork& work, Communicator& member, const Send& send);

/// Which of several ranks' errors tells most: the cause, not what follows from it.
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
