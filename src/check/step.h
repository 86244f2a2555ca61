// SPDX-License-Identifier: Apache-2.0
// A step: one call of a verb (schedule/verbs.h) by a role, as a value. The recorder stores steps,
// mutants rewrite them and the monitor judges them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/gather_tiles.h"
#include "schedule/reduce_rows.h"
#include "schedule/reduce_tiles.h"
#include "schedule/share_tiles.h"
#include "schedule/tile_sums.h"
#include "schedule/verb_names.h"

namespace tilelace::check {

using schedule::Index;
using schedule::RowRange;
using schedule::Verb;

struct Step {
  Verb verb = Verb::admit;
  int peer = -1;   ///< the rank whose flag is signalled, or the other rank of a data transfer
  int owner = -1;  ///< owner of the shard; -1: the tile straddles shards
  int block = 0;
  Index at = -1;  ///< index of the flag, chunk or tile
  RowRange rows;
  Index col = -1;  ///< column of the tile; -1: the step has no tile

  bool operator==(const Step&) const = default;
};

using StepList = std::vector<Step>;

std::string_view name_of(Verb);
/// The step as text: `push chunk 1 rows 8..16 of shard 0, peer 2`. Flags are shown as numbers.
std::string to_string(const Step&);

/// The meaning of a flag, and the rank that raises it.
struct FlagName {
  std::string text;
  int from = -1;
};
FlagName flag_name(const schedule::AgGemm&, Index flag);
FlagName flag_name(const schedule::GemmReduce&, Index flag);
/// The name of a flag in a call in which each source numbers its partials. `of_source`: the most
/// partials that one rank sends to another.
FlagName partial_name(Index of_source, Index flag);
template <class Order>
FlagName flag_name(const schedule::ReduceTiles<Order>& s, Index flag) {
  if (s.numbered()) return partial_name(s.of_source(), flag);
  return flag_name(static_cast<const schedule::GemmReduce&>(s), flag);
}
FlagName flag_name(const schedule::ReduceRows&, Index flag);
/// A count is recorded as several flags, one for each rank that adds to the count (record.cc).
FlagName flag_name(const schedule::TileSums& s, Index flag);
FlagName flag_name(const schedule::SharedTiles&, Index flag);

/// The sums of a gemm_rs whose partials copy engines take to their owners (run_copied_rows).
struct CopiedRows : schedule::ReduceRows {};

inline Step step_of(Verb verb, const schedule::GatherTile& t, int peer = -1) {
  return {verb, peer, t.source, 0, -1, t.rows, t.col};
}
inline Step step_of(Verb verb, const schedule::ReduceTile& t, int peer = -1) {
  return {verb, peer, t.owner, t.block, t.index, t.rows, t.col};
}
inline Step step_of(Verb verb, const schedule::GatherTransfer& t) {
  return {verb, t.peer, t.source, 0, t.chunk, t.rows, -1};
}
inline Step step_of(Verb verb, const schedule::ReduceTransfer& t) {
  return {verb, t.peer, t.owner, t.block, t.chunk, t.rows, -1};
}
inline Step step_of(Verb verb, const schedule::SumChunk& c, int peer = -1) {
  return {verb, peer, c.owner, 0, c.index, c.units, -1};
}
/// Number of roles of a CTA in a multimem call: two math groups, and the warps that sum.
constexpr int kRolesOfSwitched = 3;
/// Some of the rows of a tile in a multimem call.
struct SwitchedRows {
  int rank = 0;
  int tile = 0;
  RowRange rows;
  int col = 0;
};
inline Step step_of(Verb verb, const SwitchedRows& t) {
  return {verb, -1, t.rank, 0, t.tile, t.rows, t.col};
}
inline Step step_of(Verb verb, const schedule::ShareTile& t, int peer = -1) {
  return {verb, peer, t.owner, t.block, t.index, t.rows, t.col};
}

/// Verbs that do nothing, for recording the steps of a role without running them.
struct NoVerbs {
  void signal(int, Index) {}
  void signal_header(int) {}
  void wait(Index) {}
  void admit() {}
  void compute(const auto&) {}
  void store(const auto&) {}
  void stage(const auto&) {}
  void push(const auto&) {}
  void pull(const auto&) {}
  void deliver(const auto&) {}
  void reduce(const auto&) {}
  void partial(const auto&) {}
  void store_partial(const auto&, int) {}
  void store_result(const auto&, int) {}
  void park(const auto&) {}
  void unpark(const auto&) {}
  void send_partial(const auto&) {}
  void fetch_partial(const auto&) {}
  void send_result(const auto&) {}
  void fetch_result(const auto&) {}
  void send(const auto&) {}
  void take(const auto&) {}
};

/// Forwards calls to other verbs and reports each call to `note(Step)`. Waits are reported after
/// they end. Other calls are reported before they run, so that no effect is seen before its report.
template <class Verbs, class Note>
class NotedVerbs {
 public:
  NotedVerbs(Verbs& verbs, Note note) : verbs_(verbs), note_(note) {}

  void signal(int peer, Index flag) {
    note_(Step{Verb::signal, peer, -1, 0, flag, {}, -1});
    verbs_.signal(peer, flag);
  }
  void signal_header(int peer) {
    note_(Step{Verb::signal_header, peer, -1, 0, -1, {}, -1});
    verbs_.signal_header(peer);
  }
  void wait(Index flag) {
    verbs_.wait(flag);
    note_(Step{Verb::wait, -1, -1, 0, flag, {}, -1});
  }
  void admit() {
    verbs_.admit();
    note_(Step{Verb::admit, -1, -1, 0, -1, {}, -1});
  }
  void compute(const auto& t) { note_(step_of(Verb::compute, t)), verbs_.compute(t); }
  void store(const auto& t) { note_(step_of(Verb::store, t)), verbs_.store(t); }
  void stage(const auto& t) { note_(step_of(Verb::stage, t)), verbs_.stage(t); }
  void push(const auto& t) { note_(step_of(Verb::push, t)), verbs_.push(t); }
  void pull(const auto& t) { note_(step_of(Verb::pull, t)), verbs_.pull(t); }
  void deliver(const auto& t) { note_(step_of(Verb::deliver, t)), verbs_.deliver(t); }
  void reduce(const auto& t) { note_(step_of(Verb::reduce, t)), verbs_.reduce(t); }
  void partial(const auto& t) { note_(step_of(Verb::partial, t)), verbs_.partial(t); }
  void store_partial(const auto& t, int peer) {
    note_(step_of(Verb::store_partial, t, peer));
    verbs_.store_partial(t, peer);
  }
  void store_result(const auto& t, int peer) {
    note_(step_of(Verb::store_result, t, peer));
    verbs_.store_result(t, peer);
  }
  void park(const auto& t) { note_(step_of(Verb::park, t)), verbs_.park(t); }
  void unpark(const auto& t) { note_(step_of(Verb::unpark, t)), verbs_.unpark(t); }
  void send_partial(const auto& t) {
    note_(step_of(Verb::send_partial, t)), verbs_.send_partial(t);
  }
  void fetch_partial(const auto& t) {
    note_(step_of(Verb::fetch_partial, t)), verbs_.fetch_partial(t);
  }
  void send_result(const auto& t) { note_(step_of(Verb::send_result, t)), verbs_.send_result(t); }
  void fetch_result(const auto& t) {
    note_(step_of(Verb::fetch_result, t)), verbs_.fetch_result(t);
  }

 private:
  Verbs& verbs_;
  Note note_;
};

}  // namespace tilelace::check
