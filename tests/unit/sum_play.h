// SPDX-License-Identifier: Apache-2.0
// Simulates sums after a GEMM. Role loops record the steps of all ranks' workers; then the workers
// take one step each in turn. A test defines what a step does, except for waits and signals.
#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "schedule/reduce_rows.h"

namespace tilelace::schedule {

struct Step {
  enum class Kind : std::uint8_t { reduce, deliver, signal, wait };
  Kind kind;
  SumChunk chunk;  ///< used by all steps except signal and wait
  int peer = 0;    ///< used by signal
  Index flag = 0;  ///< used by signal and wait
};

/// Verbs of run_reduce_rows and run_copied_rows, which record steps.
struct Recorder {
  std::vector<Step> steps;
  void reduce(const SumChunk& c) { steps.push_back({Step::Kind::reduce, c}); }
  void deliver(const SumChunk& c) { steps.push_back({Step::Kind::deliver, c}); }
  void signal(int peer, Index flag) { steps.push_back({Step::Kind::signal, {}, peer, flag}); }
  void wait(Index flag) { steps.push_back({Step::Kind::wait, {}, 0, flag}); }
};

/// Random sizes of a sum over ranks.
struct Sizes {
  RowSplit split;
  std::vector<Index> borders;
  SumForm form = SumForm::own_rows;
  Index row_units = 1, chunk_rows = 1;
  int workers = 1, resident = 1;  ///< `workers` of a rank, of which `resident` run at the same time

  [[nodiscard]] ReduceRows schedule(int rank) const {
    RowSplit uneven = split;
    if (!borders.empty()) uneven.borders = borders.data();
    return make_reduce_rows(uneven, rank, form, row_units, chunk_of_rows(chunk_rows, row_units),
                            workers);
  }
};

inline Sizes random_sizes(std::mt19937& rng) {
  const auto any = [&](Index most) {
    return static_cast<Index>(rng() % static_cast<unsigned>(most));
  };
  Sizes s;
  const int ranks = 1 + static_cast<int>(any(kMaxGpuRanks));
  s.form = static_cast<SumForm>(any(3));
  s.row_units = 1 + any(40);
  s.chunk_rows = 1 + any(30);
  s.workers = 1 + static_cast<int>(any(9));
  s.resident = 1 + static_cast<int>(any(s.workers));
  s.split = {any(200), ranks, nullptr};
  if (s.form != SumForm::own_rows || any(2) == 0) return s;  // others have even shards
  s.borders = {0};
  for (int r = 0; r < ranks; ++r) s.borders.push_back(s.borders.back() + any(3) * any(50));
  s.split.m = s.borders.back();
  return s;
}

/// Runs every rank's workers in launch order, `resident` at a time, one step each in turn. Ranks
/// advance at different paces.
class SumPlay {
 public:
  SumPlay(const SumPlay&) = delete;
  SumPlay& operator=(const SumPlay&) = delete;
  virtual ~SumPlay() = default;

  /// Runs until no worker can continue. Returns the first complaint, or empty text.
  std::string play() {
    for (bool moved = true; moved && trouble_.empty();) {
      moved = false;
      // Ranks progress unequally, because errors of order would not show if all ranks ran in step.
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        moved = rng_() % 3 == 0 || turn(static_cast<int>(r)) || moved;
    }
    return trouble_;
  }
  [[nodiscard]] bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
      for (std::size_t w = 0; w < r.lists.size(); ++w)
        if (r.at[w] < r.lists[w].size()) return false;
      return true;
    });
  }

 protected:
  SumPlay(int resident, std::mt19937& rng) : resident_(resident), rng_(rng) {}

  /// Adds the next rank, with a list of steps for each of its workers.
  void add_rank(std::vector<std::vector<Step>> lists, Index flags) {
    std::vector<std::size_t> at(lists.size(), 0);
    ranks_.push_back({std::move(lists), std::move(at),
                      std::vector<bool>(static_cast<std::size_t>(flags), false)});
  }
  /// Records a complaint. play() returns the first one.
  void complain(const char* what) {
    if (trouble_.empty()) trouble_ = what;
  }

 private:
  struct Rank {
    std::vector<std::vector<Step>> lists;
    std::vector<std::size_t> at;
    std::vector<bool> flags;
  };

  /// Does a step that is neither wait nor signal.
  virtual void act(int rank, const Step& s) = 0;

  bool turn(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    std::vector<std::size_t> running;
    for (std::size_t w = 0; w < rank.lists.size(); ++w)
      if (rank.at[w] < rank.lists[w].size() && std::ssize(running) < resident_)
        running.push_back(w);
    std::shuffle(running.begin(), running.end(), rng_);
    bool moved = false;
    for (const std::size_t w : running) moved = step(r, rank.lists[w][rank.at[w]], w) || moved;
    return moved;
  }

  bool step(int r, const Step& s, std::size_t worker) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (s.kind == Step::Kind::wait) {
      if (!rank.flags.at(static_cast<std::size_t>(s.flag))) return false;
    } else if (s.kind == Step::Kind::signal) {
      auto& flags = ranks_[static_cast<std::size_t>(s.peer)].flags;
      if (flags.at(static_cast<std::size_t>(s.flag))) complain("a flag is raised twice");
      flags.at(static_cast<std::size_t>(s.flag)) = true;
    } else {
      act(r, s);
    }
    ++rank.at[worker];
    return true;
  }

  int resident_;
  std::mt19937& rng_;
  std::vector<Rank> ranks_;
  std::string trouble_;
};

}  // namespace tilelace::schedule
