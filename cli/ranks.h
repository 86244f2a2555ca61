// SPDX-License-Identifier: Apache-2.0
// Runs a function on every rank (a thread or a forked child) and passes the ranks' messages on.
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

/// Sends a message to the caller of run_ranks. An empty message only says that the rank is alive.
using Send = std::function<void(const std::string&)>;
using RankWork = std::function<void(Communicator&, const Send&)>;

/// What run_ranks calls while ranks run, on the thread that called run_ranks.
struct Listener {
  std::function<void(int rank, const std::string& message)> on_message;
  std::function<void()> on_idle;  ///< called a few times per second
};

/// Returns when every rank is done. If ranks are processes, call this before any thread exists; no
/// child process outlives the call. Errors: the error that most likely caused other ranks' errors;
/// system, if a child dies; timeout, if child processes stall. If threads stall, the process exits.
void run_ranks(const RanksOptions&, const RankWork&, const Listener&);

}  // namespace tilelace::cli
