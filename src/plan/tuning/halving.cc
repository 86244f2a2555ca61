// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/halving.h"

#include <algorithm>
#include <limits>

namespace tilelace::plan {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Rounds {
 public:
  Rounds(std::span<const double> predicted_us, const Sampler& sample)
      : predicted_us_(predicted_us), sample_(sample) {
    for (std::size_t i = 0; i < predicted_us.size(); ++i) calls_.push_back({{i, 0}, {}});
  }

  Halving run() {
    look_all(kFirstLook, calls_.size(), false);
    drop_hopeless();
    sort(first_);
    // Backwards: a clock that drifts shall not favour who comes first.
    const std::size_t half = std::max(std::min(first_, kFinalists), (first_ + 1) / 2);
    if (!halving_.late) look_all(kSecondLook, half, true);
    if (!halving_.late) full_rounds(std::min(half, kFinalists));
    for (const Looked& c : calls_)
      if (c.level > 0) halving_.times.push_back(c.time);
    return std::move(halving_);
  }

 private:
  struct Looked {
    CallTime time;
    std::vector<double> samples;  ///< of its longest looks
    int level = 0;                ///< how long they were
  };

  double look(std::size_t call, const Look& how) {
    const Sample s = sample_(call, how);
    halving_.late = halving_.late || s.late;
    return s.us;
  }

  void take(Looked& c, int level, double us) {
    if (c.level != level) c.samples.clear();
    c.level = level;
    c.samples.push_back(us);
    c.time.us = median(c.samples);
  }

  /// The first `count` calls; sorted by it.
  void look_all(const Look& how, std::size_t count, bool backwards) {
    ++level_;
    for (std::size_t i = 0; i < count && !halving_.late; ++i) {
      Looked& c = calls_[backwards ? count - 1 - i : i];
      take(c, level_, look(c.time.index, how));
    }
    if (backwards) sort(count);
  }

  void full_rounds(std::size_t count) {
    ++level_;
    halving_.first_us = halving_.last_us = look(0, kFullLook);
    for (int round = 0; round < kFullRounds; ++round)
      for (std::size_t i = 0; i < count; ++i) {
        if (halving_.late) return sort(count);
        take(calls_[i], level_, look(calls_[i].time.index, kFullLook));
      }
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
    take(*own, level_, halving_.first_us);
    take(*own, level_, halving_.last_us);
    std::rotate(behind, own, own + 1);
    sort(count + 1);
  }

  /// The first `count` calls. Where time was over before all of them had this round's look, those
  /// that had it are no better for it.
  void sort(std::size_t count) {
    const std::span<Looked> some(calls_.data(), count);
    std::ranges::stable_sort(some, [](const Looked& a, const Looked& b) {
      if ((a.level == 0) != (b.level == 0)) return b.level == 0;
      return a.time.us < b.time.us;
    });
  }

  /// Behind all others, and no more looked at.
  void drop_hopeless() {
    double best = std::numeric_limits<double>::infinity(), best_predicted = best;
    for (const Looked& c : calls_) {
      if (c.level > 0) best = std::min(best, c.time.us);
      if (const double p = predicted_us_[c.time.index]; p > 0)
        best_predicted = std::min(best_predicted, p);
    }
    const auto hopeful = [&](const Looked& c) {
      return c.time.us <= kHopeless * best ||
             predicted_us_[c.time.index] <= kHopeless * best_predicted;
    };
    const auto end = std::stable_partition(calls_.begin(), calls_.end(), hopeful);
    first_ = static_cast<std::size_t>(end - calls_.begin());
  }

  std::span<const double> predicted_us_;
  const Sampler& sample_;
  std::vector<Looked> calls_;
  std::size_t first_ = 0;  ///< calls that are hopeful, which come first
  int level_ = 0;
  Halving halving_;
};

}  // namespace

Halving fastest_of(std::span<const double> predicted_us, const Sampler& sample) {
  if (predicted_us.empty()) return {};
  return Rounds(predicted_us, sample).run();
}

}  // namespace tilelace::plan
