// SPDX-License-Identifier: Apache-2.0
// State that the simulator keeps per role (Actor) and per rank. Times are in microseconds.
#pragma once
#include <string>
#include <vector>

#include "sim/step.h"

namespace tilelace::sim {

struct Actor {
  int rank = 0;
  int lane = -1;  ///< -1: the copy role; else the worker's number
  const StepList* list = nullptr;
  std::size_t at = 0;
  double now = 0;
  double sent = 0;         ///< when its last transfer ends
  double stored = 0;       ///< when the worker's stores end
  double since = -1;       ///< when its current wait began
  double second_free = 0;  ///< when its second copy engine is free
  std::int32_t next_waiter = -1;
  std::int32_t row = -1, col = -1;  ///< the tile that the actor sent last
};

struct Rank {
  int headers = 0;
  double headers_us = 0;
  int running = 0;
  int next = 1;  ///< number of the next role to start; 0: the copy role
  double slow = 1;
  double end_us = 0;
  std::vector<int> waiters;  ///< roles that wait for headers
};

struct Event {
  double time = 0;
  int actor = 0;
  bool operator>(const Event& o) const { return time != o.time ? time > o.time : actor > o.actor; }
};

/// Number of flags that a call raises.
std::size_t count_signals(const std::vector<std::vector<StepList>>& lists);

/// Names the first role that has not ended and what it waits for. Empty if all roles have ended.
std::string stuck_text(const std::vector<Actor>& actors);

}  // namespace tilelace::sim
