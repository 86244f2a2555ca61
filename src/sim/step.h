// SPDX-License-Identifier: Apache-2.0
// A step: one call of a verb by a role, as a value. The verbs of Recorder turn the role loops of
// src/schedule into lists of steps, which the simulator then runs on the machine.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/gather_tiles.h"
#include "schedule/reduce_tiles.h"
#include "schedule/verb_names.h"

namespace tilelace::sim {

using schedule::Index;
using schedule::Verb;

struct Step {
  Verb verb = Verb::admit;
  std::int32_t peer = -1;   ///< signal: the rank that has the flag; transfer: the other rank
  std::int32_t owner = -1;  ///< owner of the shard; -1: the tile straddles shards
  std::int32_t row = 0;     ///< the first row
  std::int32_t rows = 0;
  std::int32_t col = -1;  ///< the tile's column; -1: no tile
  Index at = -1;          ///< signal, wait: the flag

  bool operator==(const Step&) const = default;
};

using StepList = std::vector<Step>;

/// The step for a tile or a chunk.
inline Step step_of(Verb verb, const schedule::GatherTile& t, int peer = -1) {
  return {verb,
          peer,
          t.source,
          static_cast<std::int32_t>(t.rows.begin),
          static_cast<std::int32_t>(t.rows.size()),
          static_cast<std::int32_t>(t.col)};
}
inline Step step_of(Verb verb, const schedule::ReduceTile& t, int peer = -1) {
  return {verb,
          peer,
          t.owner,
          static_cast<std::int32_t>(t.rows.begin),
          static_cast<std::int32_t>(t.rows.size()),
          static_cast<std::int32_t>(t.col)};
}
inline Step step_of(Verb verb, const schedule::GatherTransfer& t) {
  return {verb, t.peer, t.source, static_cast<std::int32_t>(t.rows.begin),
          static_cast<std::int32_t>(t.rows.size())};
}
inline Step step_of(Verb verb, const schedule::ReduceTransfer& t) {
  return {verb, t.peer, t.owner, static_cast<std::int32_t>(t.rows.begin),
          static_cast<std::int32_t>(t.rows.size())};
}

/// Verbs that only record the calls that role loops make.
class Recorder {
 public:
  explicit Recorder(StepList& list) : list_(list) {}

  void signal(int peer, Index flag) { list_.push_back({Verb::signal, peer, -1, 0, 0, -1, flag}); }
  void signal_header(int peer) { list_.push_back({Verb::signal_header, peer}); }
  void wait(Index flag) { list_.push_back({Verb::wait, -1, -1, 0, 0, -1, flag}); }
  void admit() { list_.push_back({Verb::admit}); }
  void compute(const auto& t) { list_.push_back(step_of(Verb::compute, t)); }
  void store(const auto& t) { list_.push_back(step_of(Verb::store, t)); }
  void stage(const auto& t) { list_.push_back(step_of(Verb::stage, t)); }
  void push(const auto& t) { list_.push_back(step_of(Verb::push, t)); }
  void pull(const auto& t) { list_.push_back(step_of(Verb::pull, t)); }
  void deliver(const auto& t) { list_.push_back(step_of(Verb::deliver, t)); }
  void reduce(const auto& t) { list_.push_back(step_of(Verb::reduce, t)); }
  void partial(const auto& t) { list_.push_back(step_of(Verb::partial, t)); }
  void store_partial(const auto& t, int peer) {
    list_.push_back(step_of(Verb::store_partial, t, peer));
  }
  void store_result(const auto& t, int peer) {
    list_.push_back(step_of(Verb::store_result, t, peer));
  }
  void park(const auto& t) { list_.push_back(step_of(Verb::park, t)); }
  void unpark(const auto& t) { list_.push_back(step_of(Verb::unpark, t)); }
  void send_partial(const auto& t) { list_.push_back(step_of(Verb::send_partial, t)); }
  void fetch_partial(const auto& t) { list_.push_back(step_of(Verb::fetch_partial, t)); }
  void send_result(const auto& t) { list_.push_back(step_of(Verb::send_result, t)); }
  void fetch_result(const auto& t) { list_.push_back(step_of(Verb::fetch_result, t)); }

 private:
  StepList& list_;
};

/// Records the steps of each role of a rank in a call: first the copy role, then the workers.
template <class Schedule>
std::vector<StepList> record(const Schedule& s) {
  std::vector<StepList> lists(static_cast<std::size_t>(s.workers) + 1);
  for (int i = 0; i <= s.workers; ++i) {
    Recorder verbs(lists[static_cast<std::size_t>(i)]);
    i == 0 ? run_copy(s, verbs) : run_compute(s, i - 1, verbs);
  }
  return lists;
}

}  // namespace tilelace::sim
