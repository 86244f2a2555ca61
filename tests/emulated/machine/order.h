// SPDX-License-Identifier: Apache-2.0
// What the program's flags, barriers and fences promise, beside what happened this time: whoever
// reads or writes memory of a device, or shared memory, must know that others' accesses to it are
// over. Knowledge goes from a release to the acquire that sees it, through barriers, and from
// kernel to kernel, as in the memory model of PTX; to bulk copies and products only through a proxy
// fence. TILELACE_EMULATED_ORDER=1 turns it on: the first access that nothing orders ends the
// process (or counts against the site that was taken away: machine/sites.h).
//
// Actors are lanes, the bulk copies of a thread (what they read, what they write), the products of
// a warpgroup, and operations of streams. The host is taken for one thread: what one rank's has
// seen all know.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tilelace::emulated {

/// Who, and how far it is: a lane of a group of 32 (a warp, or alone in one). Number 0: none yet.
struct Actor {
  unsigned number = 0;  ///< 32 * group + lane
  std::uint32_t step = 0;
};

/// By their numbers, where each did something last.
using Arrivals = std::map<unsigned, Actor>;

/// How many steps of each actor are known to be over.
class Clocks {
 public:
  void join(const Clocks& other);
  void know(Actor actor);
  /// Of all lanes of the actor's group.
  void know_all(Actor actor);
  [[nodiscard]] bool knows(Actor actor) const {
    const unsigned group = actor.number / 32;
    return (group < steps_.size() && steps_[group] >= actor.step) ||
           (!lanes_.empty() && knows_lane(actor));
  }

 private:
  [[nodiscard]] bool knows_lane(Actor actor) const;
  [[nodiscard]] std::uint32_t all(unsigned number) const {
    return number / 32 < steps_.size() ? steps_[number / 32] : 0;
  }
  std::vector<std::uint32_t> steps_;  ///< of groups, of all their lanes
  std::vector<Actor> lanes_;          ///< by number: those that are known further
};

/// What is over for threads; for what the chip does beside them, in a device's memory, in shared
/// memory.
struct Known {
  Clocks threads, copies, shared;

  void join(const Known& other) {
    threads.join(other.threads);
    copies.join(other.copies);
    shared.join(other.shared);
  }
};
using Knowledge = std::shared_ptr<const Known>;

/// Lanes that share a group of numbers; `top`: the furthest step of any.
struct Lanes {
  unsigned group = 0;
  std::uint32_t top = 0;
  int live = 0;
};

/// A lane, or an operation of a stream.
struct Knower {
  Actor self;
  Lanes* lanes = nullptr;
  Knowledge known;
  /// Of its own accesses those up to here are fenced, for the copies and the products of Known.
  std::uint32_t copies = 0, shared = 0;
  std::uint64_t taken = 0;  ///< version of what it knows already
  int away = 0;             ///< inside calls that were taken away (machine/sites.h)
};

/// What was given at a place, by several one after the other.
struct Given {
  std::shared_ptr<Known> known;
  Knowledge last;  ///< of what was added to it
  std::uint64_t version = 0;
};

/// Something beside threads that was asked for, and what it may take for granted. Empty where order
/// is off.
struct Asked {
  Actor by, thread;                      ///< itself; who asked
  std::uint32_t copies = 0, shared = 0;  ///< of who asked, as of a Knower
  Knowledge knows;
  const void* where = nullptr;
};

namespace order {

extern const bool kOn;
inline bool is_on() { return kOn; }

void begin(Lanes& lanes, const std::string& name, int count);
void begin(Knower& who, Lanes& lanes, int lane, Knowledge knows);
void end(Lanes& lanes);
void end(Actor& copies);
/// Of a kernel or a copy that ends: what it knew, and all that its lanes did.
void leave(const std::vector<const Knower*>& lanes, Clocks& over);

/// As begin, of something beside a thread, the first time; then the next of it.
Asked ask(Actor& copies, Knower& thread, const char* name, const void* where);

/// What the knower knows goes to who meets it there; what it does later does not.
void give(Knower& from, Given& to);
void give(Actor copy, Given& to);
void take(Knower& to, const Given& from);
/// Of a kernel that is over, for threads and bulk copies alike.
void take(Knower& to, const Clocks& over);
/// Lanes that wait for each other: `to` has what those gave who did not stay.
void meet(const std::vector<Knower*>& all, Given& to);
/// Of what was waited for: for the thread; what it asks for next, in shared memory, knows, too.
void know(Knower& who, Actor copy, bool shared);
/// What is asked for from now on sees what threads know.
void fence_copies(Knower& who);
void fence_shared(Knower& who);

/// Flags: `device` of who does it, `wide` if at system scope.
struct Scope {
  int device = 0;
  bool wide = true;
};
void release(Knower& from, const void* flag, Scope scope, bool adds);
void acquire(Knower& to, const void* flag, Scope scope);

enum class Access : std::uint8_t { read, write, add };
void touch(Knower& who, Access access, const void* p, std::size_t bytes, const void* where);
void touch(const Asked& copy, Access access, const void* p, std::size_t bytes);

/// A CTA ends, `all` is what its lanes know together: nothing is on its way to its memory any more.
void touch_end(const Clocks& all, Actor self, const void* p, std::size_t bytes);
/// The same of one word and all that others did there, not of the last two only.
void touch_end(const Clocks& all, Actor self, const void* p, const Arrivals& others);

/// Memory of a device, with what happened to it; mapped in several places it is one object still.
/// Addresses and lengths are multiples of kRegionUnit.
constexpr std::size_t kRegionUnit = 1 << 16;
struct Mapped {
  std::uint64_t object = 0;  ///< 0: of its own
  std::size_t bytes = 0;     ///< of the object
  std::size_t offset = 0;
  bool shared = false;  ///< of a CTA
};
void add_region(const void* p, std::size_t bytes, Mapped mapped);
void remove_region(const void* p);
/// Nothing has happened to it.
void forget(const void* p, std::size_t bytes);
void forget_flags();
/// Nor to any; who knows what is as it was.
void forget_all();
/// Of an actor.
std::string name_of(Actor who);
/// The same wherever it is mapped.
const void* key_of(const void* flag);

}  // namespace order
}  // namespace tilelace::emulated
