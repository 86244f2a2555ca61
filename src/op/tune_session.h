// SPDX-License-Identifier: Apache-2.0
// Times plans on a temporary communicator over the same ranks, so that staging, graphs and errors
// of tuning stay separate.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/call_timer.h"
#include "op/tune_experts.h"
#include "op/tune_operands.h"
#include "plan/gpu/gpu_ways.h"
#include "plan/tuning/halving.h"
#include "tilelace/communicator.h"
#include "tilelace/tune.h"

namespace tilelace::op {

class TuneSession {
 public:
  /// Uses the ranks of `of`, which must have no other call under way. Collective. Errors: system,
  /// peer, timeout.
  TuneSession(Communicator::Impl& of, const TuneOptions&);
  /// Waits for all ranks; call it before destruction unless there was an error. Collective.
  void end();

  /// Finds the fastest plan of a problem and checks its result. `seconds`: time limit (0: no
  /// limit). Returns nullopt if a rank lacks memory for the operands, or if times of the same call
  /// vary too much (unless tuning is forced). `why` then gives the reason on every rank.
  /// Collective. Errors: system (a wrong result), peer, timeout, usage.
  std::optional<TunedProblem> tune(const Problem&, double seconds, std::string& why);
  /// In the same way, finds the fastest tiles for a product of a layer of experts.
  std::optional<FoundTiles> tune(const AskedTiles&, double seconds, std::string& why);
  /// Describes other work on a rank's GPU, or throttling; empty if there is none, or if tuning is
  /// forced. Collective.
  std::string disturbance();
  /// The most seconds that have passed on any rank since the session began. Collective.
  double elapsed_s();

 private:
  struct Candidate {
    Plan plan;
    double predicted_us = 0;
  };
  /// A call to be timed; `run` makes the i-th call of a graph.
  struct TimedCall {
    std::function<void(int)> run;
    double predicted_us = 0;
    double about_us = 0;  ///< of a call, roughly; known once its graph is captured
  };
  [[nodiscard]] std::vector<Candidate> candidates_of(const Problem&) const;
  /// Makes operands. Returns false, on every rank, if a rank lacks memory for them.
  template <class Operands, class Asked>
  [[nodiscard]] bool has_memory(const Asked&, std::optional<Operands>&, std::string& why);
  plan::Halving timed(std::vector<TimedCall>&, double seconds);
  /// Captures a call's graph and times it once. Returns whether `end_s` has passed.
  bool capture(std::size_t number, TimedCall&, double end_s);
  /// Whether the times are steady enough to compare calls; if not, `why` gives the reason.
  [[nodiscard]] bool steady(const plan::Halving&, std::string& why) const;
  /// Takes one sample of a graph and returns the slowest rank's time. Every rank makes `load`
  /// replays to warm up, then `timed` replays.
  plan::Sample sample(std::size_t number, int load, int timed, double end_s);
  /// Poisons the results, runs a call and checks the results. `what` names the call in the error.
  /// Error: system.
  template <class Operands>
  void check(Operands&, const std::function<void(int)>& run, const std::string& what);
  /// "rank R: MINE" of the lowest rank whose `mine` is not empty, else ""; equal on all ranks.
  std::string first_of(const std::string& mine);

  TuneOptions options_;
  double timeout_s_;
  Communicator member_;
  std::unique_ptr<CallTimer> timer_;
  TuneValues values_;
  double begin_s_;
};

}  // namespace tilelace::op
