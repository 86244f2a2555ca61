// SPDX-License-Identifier: Apache-2.0
// Vector clocks: what each actor knows of every other one's progress.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

namespace tilelace::check {

using Time = std::int32_t;
using Clock = std::vector<Time>;

void join(Clock& into, const Clock& other);
/// The first actor of whom the one knows more than the other; -1: none.
int first_beyond(const Clock& other, const Clock& known);

/// What a flag carries beside its value: who raised it, and when.
struct Release {
  int actor = -1;  ///< -1: never raised
  Time time = 0;
};

/// The clocks of all actors. An actor's own entry grows at each release, so that what it did before
/// and what it did after are told apart.
///
/// A release carries no clock. Each actor keeps what it learned, in order, and how much of that
/// came before each of its releases. Whoever knows actor@t knows all that came with it, so a join
/// up to actor@u reads only what that actor learned between t and u. Where that is much, it reads
/// one of the copies that actors make of their clocks now and then, and what came behind it.
class Clocks {
 public:
  explicit Clocks(std::size_t actors);

  [[nodiscard]] const Clock& known(int a) const { return at(a).known; }
  [[nodiscard]] Time now(int a) const { return at(a).known[static_cast<std::size_t>(a)]; }
  [[nodiscard]] bool knows(int a, int actor, Time time) const {
    return actor < 0 || at(a).known[static_cast<std::size_t>(actor)] >= time;
  }

  /// What comes now is later than what whoever acquires this knows of.
  Release release(int a);
  void acquire(int a, Release r);
  /// What some actors knew at releases of theirs.
  void acquire(int a, const Clock& other);
  /// Forgets how all came to know what all know.
  void trim();

  /// Entries kept, beside the actors' clocks.
  [[nodiscard]] std::size_t kept() const;
  /// Entries of clocks looked at so far.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  /// How much an actor had learned at a release.
  struct Moment {
    std::uint32_t learned = 0;
    std::uint32_t gap = 0;     ///< what was learned between moments of one gap is all written down
    std::uint32_t copies = 0;  ///< of the actor's clock, so far
  };
  struct Copy {
    std::uint32_t learned = 0;  ///< then
    Clock known;
  };
  struct Actor {
    Clock known;
    std::vector<Release> learned;
    std::vector<Moment> moments;  ///< by own time, from `first` on
    std::deque<Copy> copies;
    Moment now;
    Time first = 0;
    bool lost = false;  ///< something was learned and not written down

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
