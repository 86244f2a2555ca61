// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/halving.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tilelace::plan {
namespace {

enum Level { none, first, second, full };

double time_of(std::vector<double> samples, Level level) {
  if (level != full) return std::ranges::min(samples);
  std::ranges::sort(samples);
  if (samples.size() > 2) samples.pop_back();
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

class Rounds {
 public:
  Rounds(std::span<const double> predicted_us, const Sampler& sample)
      : predicted_us_(predicted_us), sample_(sample) {
    calls_.resize(predicted_us.size());
    for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i].time.index = i;
  }

  Halving run() {
    sample_(0, kSettling);  // late or not: call 0 gets a time
    look_all(first, kFirstLook, calls_.size(), false);
    drop_hopeless();
    // Backwards, as a short sample behind plans of another kind takes up to 40 % longer.
    if (!halving_.late) look_all(first, kFirstLook, hopeful_, true);
    sort(hopeful_);
    // Backwards: a clock that drifts shall not favour who comes first.
    const std::size_t half = std::max(std::min(hopeful_, kFinalists), (hopeful_ + 1) / 2);
    if (!halving_.late) look_all(second, kSecondLook, half, true);
    for (int round = 0; round < kDipRounds && !halving_.late; ++round) look_again(half);
    sort(half);
    if (!halving_.late) full_rounds(std::min(half, kFinalists));
    for (const Looked& c : calls_)
      if (c.level != none) halving_.times.push_back(c.time);
    return std::move(halving_);
  }

 private:
  struct Looked {
    CallTime time;
    double shorter_us = 0;        ///< its time by the looks before its longest ones
    std::vector<double> samples;  ///< of its longest looks
    Level level = none;           ///< how long they were
  };

  double look(std::size_t call, const Look& how) {
    const Sample s = sample_(call, how);
    halving_.late = halving_.late || s.late;
    return s.us;
  }

  void take(Looked& c, Level level, double us) {
    if (c.level != level) {
      c.shorter_us = c.time.us;
      c.samples.clear();
    }
    c.level = level;
    c.samples.push_back(us);
    c.time.us = time_of(c.samples, level);
  }

  /// The first `count` calls.
  void look_all(Level level, const Look& how, std::size_t count, bool backwards) {
    for (std::size_t i = 0; i < count && !halving_.late; ++i) {
      Looked& c = calls_[backwards ? count - 1 - i : i];
      take(c, level, look(c.time.index, how));
    }
  }

  /// Second looks, for those of the first `count` calls whose second look fell into a dip.
  void look_again(std::size_t count) {
    const auto longer = [](const Looked& c) { return c.time.us / c.shorter_us; };
    std::vector<double> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(longer(calls_[i]));
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::ranges::nth_element(all, middle);
    for (std::size_t i = 0; i < count && !halving_.late; ++i)
      if (longer(calls_[i]) > kDip * *middle)
        take(calls_[i], second, look(calls_[i].time.index, kSecondLook));
  }

  void full_rounds(std::size_t count) {
    look(0, kFullLook);  // the first long one may take 20 % longer
    if (halving_.late) return;
    halving_.first_us = halving_.last_us = look(0, kFullLook);
    // Forward, then backward: clocks at the power limit swing about as slowly as a round.
    for (int round = 0; round < kFullRounds && !halving_.late; ++round)
      look_all(full, kFullLook, count, round % 2 == 1);
    sort(count);
    if (halving_.late) return;
    halving_.last_us = look(0, kFullLook);
    admit_first(count);
  }

  /// Call 0 is a finalist by the two samples around the rounds. Its first sample may mislead: no
  /// other call has warmed the machine for it.
  void admit_first(std::size_t count) {
    const auto behind = calls_.begin() + static_cast<std::ptrdiff_t>(count);
    const auto own =
        std::find_if(behind, calls_.end(), [](const Looked& c) { return c.time.index == 0; });
    if (own == calls_.end()) return;
    take(*own, full, halving_.first_us);
    take(*own, full, halving_.last_us);
    std::rotate(behind, own, own + 1);
    sort(count + 1);
  }

  /// The first `count` calls. Where time was over before all of them had this round's look, those
  /// that had it are no better for it.
  void sort(std::size_t count) {
    const std::span<Looked> some(calls_.data(), count);
    std::ranges::stable_sort(some, [](const Looked& a, const Looked& b) {
      if ((a.level == none) != (b.level == none)) return b.level == none;
      return a.time.us < b.time.us;
    });
  }

  /// Behind all others, and no more looked at.
  void drop_hopeless() {
    double best = std::numeric_limits<double>::infinity(), best_predicted = best;
    for (const Looked& c : calls_) {
      if (c.level != none) best = std::min(best, c.time.us);
      if (const double p = predicted_us_[c.time.index]; p > 0)
        best_predicted = std::min(best_predicted, p);
    }
    const auto hopeful = [&](const Looked& c) {
      return c.time.us <= kHopeless * best ||
             predicted_us_[c.time.index] <= kHopeless * best_predicted;
    };
    const auto end = std::stable_partition(calls_.begin(), calls_.end(), hopeful);
    hopeful_ = static_cast<std::size_t>(end - calls_.begin());
  }

  std::span<const double> predicted_us_;
  const Sampler& sample_;
  std::vector<Looked> calls_;
  std::size_t hopeful_ = 0;  ///< calls, which come first
  Halving halving_;
};

}  // namespace

Halving fastest_of(std::span<const double> predicted_us, const Sampler& sample) {
  if (predicted_us.empty()) return {};
  return Rounds(predicted_us, sample).run();
}

}  // namespace tilelace::plan
