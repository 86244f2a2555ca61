// SPDX-License-Identifier: Apache-2.0
// Runs a function on every rank, as threads or as forked children, and brings their messages back.
#pragma once
#include <functional>
#include <string>

#include "signals.h"
#include "tilelace/communicator.h"

namespace tilelace::cli {

struct RanksOptions {
  int ranks = 1;
  bool processes = false;
  CommunicatorOptions group;
};

/// Sends a message to whoever started the ranks; an empty one only says that the rank is alive.
using Send = std::function<void(const std::string&)>;
using RankWork = std::function<void(Communicator&, const Send&)>;

/// What the starter does meanwhile; both run on its own thread.
struct Listener {
  std::function<void(int rank, const std::string& message)> on_message;
  std::function<void()> on_idle;  ///< a few times a second
};

/// Returns when every rank is done. As processes: to be called before any thread exists; no child
/// is left when it returns or throws, stopped ones included.
/// Errors: what the first failing rank threw; peer, when a child dies; timeout, when all that is
/// left stands still.
void run_ranks(const RanksOptions&, const RankWork&, const Listener&);

}  // namespace tilelace::cli
