// SPDX-License-Identifier: Apache-2.0
// Runs the step lists of all roles of all ranks once. Tracks what each actor does or waits for.
#pragma once
#include <cstdint>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "check/monitor.h"
#include "check/prepared_calls.h"

namespace tilelace::check {

class Explorer {
 public:
  /// `judged`: whether the monitor judges every step; else the run only looks for deadlocks.
  Explorer(const CheckConfig& config, const PreparedCalls& calls, bool judged);
  CheckReport run();

 private:
  /// `value` of a flag; `waiters`: the last actor that began to wait for it; -1: nobody waits.
  struct Flag {
    std::uint32_t value = 0;
    int waiters = -1;
  };

  /// Actors that begin and end calls together: all of a rank, unless a mutant separates them.
  struct Stream {
    int rank = 0;
    std::vector<int> launch;  ///< actors in launch order
    Index call = -1;
    std::size_t launched = 0;
    std::size_t ended = 0;
  };

  struct Runner {
    const StepList* list = nullptr;
    std::size_t at = 0;
    int admit_peer = 0;
    Index line = 0;  ///< during a take_line: number of units that have arrived
    Index call = -1;
    int rank = 0;
    int stream = 0;
    std::uint32_t priority = 0;
    int waits_before = -1;  ///< the actor before this one in the list of waiters; -1: none
    bool blocked = false;
  };

  void make_streams();
  void make_priorities();
  void launch(int stream);
  void next_call(int stream);
  void advance(int actor);
  bool blocks(int actor, const Step& step);
  void finish(int actor);
  bool blocks_at_line(int actor, const Step& step);
  void put(int actor, int& waiters);
  void wake(int& waiters);
  void count(const Step& step);
  void report_deadlock();
  [[nodiscard]] std::string blocked_text(int actor) const;
  [[nodiscard]] int launched_at(const Stream& stream, std::size_t place) const;

  [[nodiscard]] bool reached(std::uint32_t have, std::uint32_t want, bool header) const;
  [[nodiscard]] std::uint32_t epoch(Index call) const {
    return config_.first_epoch + static_cast<std::uint32_t>(call);
  }
  [[nodiscard]] std::size_t line_at(int rank, Index call, Index unit) const;
  [[nodiscard]] bool line_reached(std::uint32_t have, std::uint32_t want) const;
  [[nodiscard]] std::size_t flag_at(int rank, Index call, Index flag) const;
  [[nodiscard]] std::uint32_t header(int rank, int peer) const {
    return headers_[static_cast<std::size_t>(rank * config_.ranks + peer)];
  }
  [[nodiscard]] bool stopped() const;
  [[nodiscard]] int actors_of_rank() const { return config_.workers + 1; }
  [[nodiscard]] int rank_of(int actor) const { return runner(actor).rank; }
  [[nodiscard]] const CallPlan& plan(Index call) const {
    return *calls_.plans[static_cast<std::size_t>(call)];
  }
  Runner& runner(int actor) { return runners_[static_cast<std::size_t>(actor)]; }
  [[nodiscard]] const Runner& runner(int actor) const {
    return runners_[static_cast<std::size_t>(actor)];
  }

  const CheckConfig& config_;
  const PreparedCalls& calls_;
  const bool judged_;
  Monitor monitor_;
  CheckReport report_;
  std::vector<Stream> streams_;
  std::vector<Runner> runners_;
  std::priority_queue<std::pair<std::uint32_t, int>> ready_;
  std::vector<Flag> flags_;  ///< by rank, flag slot, flag
  std::size_t flags_of_slot_ = 1;
  std::vector<Flag> lines_;  ///< by rank, slot, unit
  std::size_t lines_of_slot_ = 0;
  std::vector<std::uint32_t> headers_;  ///< by rank, peer
  std::vector<int> header_waiters_;     ///< by rank
};

}  // namespace tilelace::check
