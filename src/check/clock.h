// SPDX-License-Identifier: Apache-2.0
// Vector clocks: each actor's knowledge of every other actor's progress.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

namespace tilelace::check {

using Time = std::int32_t;
using Clock = std::vector<Time>;

void join(Clock& into, const Clock& other);
/// The first actor about which `other` knows more than `known` does; -1: none.
int first_beyond(const Clock& other, const Clock& known);

/// What the checker keeps with a flag's value: the actor that raised it, and when.
struct Release {
  int actor = -1;  ///< -1: never raised
  Time time = 0;
};

/// The clocks of all actors. An actor's own entry grows at each release, so that its steps before
/// the release have an earlier time than its steps after.
///
/// A release stores no clock. Instead each actor logs what it learns, in order, and how long the
/// log was at each of its releases. If actor a knows actor b up to time t, a knows all that b had
/// learned by t. To learn what b knew at time u, a reads only b's log between t and u. If that part
/// is long, a reads a copy of b's clock (actors make copies from time to time) and only the log
/// after the copy.
class Clocks {
 public:
  explicit Clocks(std::size_t actors);

  [[nodiscard]] const Clock& known(int a) const { return at(a).known; }
  [[nodiscard]] Time now(int a) const { return at(a).known[static_cast<std::size_t>(a)]; }
  [[nodiscard]] bool knows(int a, int actor, Time time) const {
    return actor < 0 || at(a).known[static_cast<std::size_t>(actor)] >= time;
  }

  /// Advances actor a's time. Actors that acquire this release learn of no later steps of actor a.
  Release release(int a);
  void acquire(int a, Release r);
  /// Actor a learns all of `other`, which is a join() of clocks that actors had at releases.
  void acquire(int a, const Clock& other);
  /// Drops the parts of the logs that all actors know.
  void trim();

  /// Number of entries in logs and copies, in addition to the actors' clocks.
  [[nodiscard]] std::size_t kept() const;
  /// Number of clock entries read so far.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  /// How much an actor had logged at a release.
  struct Moment {
    std::uint32_t learned = 0;
    std::uint32_t gap = 0;     ///< number of gaps in the log so far (see `lost`)
    std::uint32_t copies = 0;  ///< number of copies of the actor's clock so far
  };
  struct Copy {
    std::uint32_t learned = 0;  ///< length of the log when the copy was made
    Clock known;
  };
  struct Actor {
    Clock known;
    std::vector<Release> learned;
    std::vector<Moment> moments;  ///< indexed by the actor's own time, from `first` on
    std::deque<Copy> copies;
    Moment now;
    Time first = 0;
    bool lost = false;  ///< whether the log lacks things learned since the last copy

    [[nodiscard]] const Moment& moment(Time time) const {
      return moments[static_cast<std::size_t>(time - first)];
    }
  };

  [[nodiscard]] static std::size_t behind(const Actor& actor);
  void learn(Actor& self, Release r);
  void learn(Actor& self, const Clock& other);
  Actor& at(int a) { return actors_[static_cast<std::size_t>(a)]; }
  [[nodiscard]] const Actor& at(int a) const { return actors_[static_cast<std::size_t>(a)]; }

  std::vector<Actor> actors_;
  std::int64_t work_ = 0;
};

}  // namespace tilelace::check
