// SPDX-License-Identifier: Apache-2.0
// Judges the actors' steps as they happen, by vector clocks (happens-before), for each cell of
// memory (check/call.h). The explorer feeds it recorded steps; the CPU backend's checked mode feeds
// it real steps, under a mutex.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "check/call.h"
#include "check/clock.h"
#include "check/finding.h"

namespace tilelace::check {

/// An actor is one role of one rank: index 0 is `copy`, 1 + w is `compute` worker w.
constexpr int actor_of(int rank, int index, int workers) { return rank * (workers + 1) + index; }

/// Not thread-safe. Calls count from 0 and carry epoch first_epoch + call.
class Monitor {
 public:
  struct Setup {
    int ranks = 1;
    int workers = 1;  ///< the most workers of any call
    std::uint32_t first_epoch = 1;
    int slots = 2;           ///< number of slots; 1 only in a mutant
    int flag_slots = 2;      ///< number of slots for flags; 1 only in a mutant
    std::uint32_t idle = 0;  ///< how many calls, just before the first, raised no flags or lines
    std::size_t max_findings = 8;
  };
  explicit Monitor(const Setup& setup);

  /// Each actor of the plan begins and ends each call, in order. `ordered`: the actor begins this
  /// call after all actors of its rank have ended the previous one (as a stream ensures).
  void begin_call(int actor, Index call, const std::shared_ptr<const CallPlan>& plan,
                  bool ordered = true);
  /// `whole`: false if the actor gave up after an error; the call's results are then not checked.
  void end_call(int actor, bool whole = true);
  /// Reports a step of this actor. Waits and admit are reported after they end, all other steps
  /// before their effect is visible.
  void on(int actor, const Step& step);

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  /// Number of findings, kept or not.
  [[nodiscard]] std::size_t num_findings() const { return num_findings_; }
  /// Number of clock entries and cells read, which is a run's cost apart from its steps.
  [[nodiscard]] std::int64_t work() const { return clocks_.work() + work_; }
  /// Number of clock entries kept from earlier calls; must not grow.
  [[nodiscard]] std::size_t kept() const { return clocks_.kept(); }
  [[nodiscard]] std::string role(int actor) const;
  void add(FindingKind kind, const std::string& text);

 private:
  struct Cell {
    int writer = -1;  ///< last writer; -1: none
    Time time = 0;
    std::uint32_t step = 0;
    int round = -1;   ///< last round written, for places that are written once per round
    int reader = -1;  ///< last reader, for places with rounds and for inputs that results overwrite
    Time read = 0;
  };
  struct CallState {
    Index call = 0;
    std::shared_ptr<const CallPlan> plan;
    std::vector<std::vector<Cell>> cells;  ///< by rank * kRegions + region
    int ended = 0;
    bool given_up = false;
  };
  struct Actor {
    int rank = 0;
    Index call = -1;
    CallState* state = nullptr;
    const Step* step = nullptr;  ///< the actor's step that is being judged
    std::uint32_t steps = 0;
    bool admitted = false;
    int terms = 0;  ///< number of terms added to the current sum
  };
  /// A flag or header. `release` raised it to `epoch`; `before` had raised it to `epoch_before`.
  struct Word {
    std::uint32_t epoch = 0;
    std::uint32_t epoch_before = 0;
    Release release, before;
    void raise(std::uint32_t to, Release by);
    [[nodiscard]] Release first_reaching(std::uint32_t want) const;
  };
  /// Each actor's last use of a rank's slot: `now` in this call, `before` in all earlier calls.
  struct Slot {
    Index call = -1;
    Clock now, before;
    std::vector<Index> checked;  ///< by actor: the last call in which the first use was checked
  };

  /// `reads`: each actor's last read of a rank's results. `begun`: the last call that the rank has
  /// begun. Between calls the results belong to the user.
  struct Results {
    Index begun = -1;
    Clock reads;
  };

  [[nodiscard]] std::uint32_t epoch(Index call) const {
    return setup_.first_epoch + static_cast<std::uint32_t>(call);
  }
  [[nodiscard]] int rank_of(int a) const { return actor(a).rank; }
  Actor& actor(int a) { return actors_[static_cast<std::size_t>(a)]; }
  [[nodiscard]] const Actor& actor(int a) const { return actors_[static_cast<std::size_t>(a)]; }
  [[nodiscard]] std::size_t slot_index(int rank, Index call, int slots) const;
  Slot& slot(int rank, Index call);
  Word& word(int rank, Index call, Index flag);
  Word& line(int rank, Index call, Index unit);
  [[nodiscard]] Word unused_word() const;
  Word& header_word(int rank, int peer);
  CallState* find(Index call);
  CallState& open(Index call, const std::shared_ptr<const CallPlan>& plan);
  void catch_up(const CallState& state);
  void close_finished();

  void raise_word(int actor, Word& word, const std::string& name);
  void on_signal(int actor, const Step& step);
  void on_line(int actor, const Step& step);
  void add_in_order(int actor, const Step& step);
  void on_access(int actor, const Access& access);
  void use_slot(int actor, int rank, const Access* access);
  void read_result(int actor, const Access& access);
  void return_results(int actor);
  void read_cell(int actor, const Access& access, RowRange rows, Cell& cell);
  void write_cell(int actor, const Access& access, RowRange rows, Cell& cell);
  void read_place(int actor, const Access& access, RowRange rows, Cell& cell);
  void write_place(int actor, const Access& access, RowRange rows, Cell& cell);
  void read_input(int actor, const Access& access, RowRange rows, Cell& cell);
  void note_read(int actor, const Access& access, RowRange rows, Cell& cell);
  void check_results(const CallState& state);
  void worked(std::size_t entries) { work_ += static_cast<std::int64_t>(entries); }
  /// Actor and step: `ag_gemm call 3 rank 2 compute 1 step 17 compute tile rows 32..48 col 2`.
  [[nodiscard]] std::string where(int actor) const;
  [[nodiscard]] std::string text(int actor, const Access& access, RowRange rows) const;

  Setup setup_;
  Clocks clocks_;
  std::vector<Actor> actors_;
  std::vector<Slot> slots_;
  std::vector<Results> results_;
  std::vector<std::vector<Word>> flag_words_;  ///< by rank and flag slot
  std::vector<std::vector<Word>> lines_;       ///< by rank and slot: the epoch of each unit
  std::vector<Word> headers_;
  std::deque<CallState> calls_;
  std::vector<Clock> ended_;  ///< by rank * 4 + call % 4: clocks at the end of that call
  std::vector<Index> ended_call_;
  std::vector<Finding> findings_;
  std::size_t num_findings_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace tilelace::check
