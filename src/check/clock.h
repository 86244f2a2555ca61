// SPDX-License-Identifier: Apache-2.0
// Vector clocks: what each actor knows of every other one's progress.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace tilelace::check {

using Time = std::uint32_t;
using Clock = std::vector<Time>;

inline void join(Clock& into, const Clock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] < other[i] ? other[i] : into[i];
}

/// What a flag carries beside its value: who raised it, when, and all that actor knew.
struct Release {
  int actor = -1;  ///< -1: never raised
  Time time = 0;
  std::shared_ptr<const Clock> known;
};

/// One actor's clock. Its own entry grows at each release, so that what an actor did before a
/// release and what it did after are told apart.
class ActorClock {
 public:
  ActorClock(int self, std::size_t actors)
      : self_(static_cast<std::size_t>(self)), known_(actors, 0) {
    known_[self_] = 1;
  }

  [[nodiscard]] Time now() const { return known_[self_]; }
  [[nodiscard]] const Clock& known() const { return known_; }
  [[nodiscard]] bool knows(int actor, Time time) const {
    return actor < 0 || known_[static_cast<std::size_t>(actor)] >= time;
  }

  /// Releases in a row share one copy of the clock: between them only the own entry grew, and that
  /// stands in the record.
  Release release() {
    if (!shared_) shared_ = std::make_shared<const Clock>(known_);
    return {static_cast<int>(self_), known_[self_]++, shared_};
  }
  /// What comes now is later than what whoever read the clock before knows of.
  void tick() { ++known_[self_]; }
  /// Whoever knows actor@time knows all that came with it already.
  void acquire(const Release& r) {
    if (r.actor < 0 || knows(r.actor, r.time)) return;
    join(known_, *r.known);
    known_[static_cast<std::size_t>(r.actor)] = r.time;
    shared_.reset();
  }
  void acquire(const Clock& other) {
    join(known_, other);
    shared_.reset();
  }

 private:
  std::size_t self_;
  Clock known_;
  std::shared_ptr<const Clock> shared_;
};

}  // namespace tilelace::check
