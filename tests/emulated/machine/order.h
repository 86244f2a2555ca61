// SPDX-License-Identifier: Apache-2.0
// Checks what a program's flags, barriers and fences guarantee, not only what happened in this run.
// An actor that reads or writes device memory or shared memory must know that others' accesses to
// it have ended. Knowledge passes from a release to the acquire that sees it, through barriers, and
// from kernel to kernel, as in the memory model of PTX. It passes to bulk copies and products only
// through a proxy fence. TILELACE_EMULATED_ORDER=1 turns the check on: the first unordered access
// ends the process (or counts against the site that was disabled: machine/sites.h).
//
// Actors are lanes, the bulk copies of a thread (reads and writes separately), the products of a
// warpgroup, and operations of streams. The host counts as one thread: what one rank's host thread
// has seen, all know.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tilelace::emulated {

/// An actor and its step. It is a lane of a group of 32: of a warp, or alone in its group. Number
/// 0: none yet.
struct Actor {
  unsigned number = 0;  ///< 32 * group + lane
  std::uint32_t step = 0;
};

/// The last step of each actor, by the actor's number.
using Arrivals = std::map<unsigned, Actor>;

/// The steps of each actor that are known to have ended. Copies share them until one changes.
class Clocks {
 public:
  void join(const Clocks& other);
  void know(Actor actor);
  /// Adds this step for all lanes of the actor's group.
  void know_all(Actor actor);
  [[nodiscard]] bool knows(Actor actor) const { return ended_ != nullptr && ended_->knows(actor); }

 private:
  struct Ended {
    std::vector<std::uint32_t> steps;  ///< by group: steps that hold for all its lanes
    std::vector<Actor> lanes;          ///< lanes of which more is known, by number

    [[nodiscard]] bool knows(Actor actor) const {
      return all(actor.number) >= actor.step || (!lanes.empty() && knows_lane(actor));
    }
    [[nodiscard]] bool knows_lane(Actor actor) const;
    [[nodiscard]] std::uint32_t all(unsigned number) const {
      return number / 32 < steps.size() ? steps[number / 32] : 0;
    }
    [[nodiscard]] bool has(const Ended& other) const;
    void join(const Ended& other);
  };
  Ended& own();

  std::shared_ptr<Ended> ended_;  ///< null: none
};

/// What has ended, as known to threads, and to asynchronous operations on device memory and on
/// shared memory.
struct Known {
  Clocks threads, copies, shared;

  void join(const Known& other) {
    threads.join(other.threads);
    copies.join(other.copies);
    shared.join(other.shared);
  }
};
using Knowledge = std::shared_ptr<const Known>;

/// Lanes that share a group of numbers. `top`: the largest step of any.
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
  /// Its own accesses up to these steps are fenced, for Known::copies and Known::shared.
  std::uint32_t copies = 0, shared = 0;
  std::uint64_t taken = 0;  ///< Given::version that it took last
  int away = 0;             ///< depth of calls from disabled sites (machine/sites.h)
};

/// The knowledge given at a place, by several actors in sequence.
struct Given {
  std::shared_ptr<Known> known;
  Knowledge last;  ///< what was added last
  std::uint64_t version = 0;
};

/// A requested asynchronous operation, and what it may rely on. Empty if the check is off.
struct Asked {
  Actor by, thread;                      ///< the operation; the thread that requested it
  std::uint32_t copies = 0, shared = 0;  ///< the requesting thread's, as in Knower
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
/// A kernel or a copy ends: adds what it knew, and all that its lanes did, to `over`.
void leave(const std::vector<const Knower*>& lanes, Clocks& over);

/// The first time, begins an asynchronous operation as `begin` does; later, its next step.
Asked ask(Actor& copies, Knower& thread, const char* name, const void* where);

/// Gives what the knower knows, but not what it does later, to those that meet it at a place.
void give(Knower& from, Given& to);
void give(Actor copy, Given& to);
void take(Knower& to, const Given& from);
/// Takes the knowledge of a kernel that has ended, for threads and for bulk copies.
void take(Knower& to, const Clocks& over);
/// Lanes that wait for each other exchange knowledge. `to` has that of lanes that did not wait.
void meet(const std::vector<Knower*>& all, Given& to);
/// A thread has waited for a copy, so it knows the copy has ended. If `shared`, its next operations
/// on shared memory know, too.
void know(Knower& who, Actor copy, bool shared);
/// Operations that `who` requests from now on, on device or on shared memory, know what it knows.
void fence_copies(Knower& who);
void fence_shared(Knower& who);

/// Scope of a flag operation: the actor's device, and whether it is at system scope.
struct Scope {
  int device = 0;
  bool wide = true;
};
void release(Knower& from, const void* flag, Scope scope, bool adds);
void acquire(Knower& to, const void* flag, Scope scope);

enum class Access : std::uint8_t { read, write, add };
void touch(Knower& who, Access access, const void* p, std::size_t bytes, const void* where);
void touch(const Asked& copy, Access access, const void* p, std::size_t bytes);

/// A CTA ends: no operation on its memory may be in flight. `all`: what its lanes know together.
void touch_end(const Clocks& all, Actor self, const void* p, std::size_t bytes);
/// The same for one word, checked against every other actor's last arrival there; a cell keeps only
/// the last write and two reads.
void touch_end(const Clocks& all, Actor self, const void* p, const Arrivals& others);

/// Memory and its history of accesses. If it is mapped at several places, it is still one
/// object. Addresses and lengths are multiples of kRegionUnit.
constexpr std::size_t kRegionUnit = 1 << 16;
struct Mapped {
  std::uint64_t object = 0;  ///< number of the object; 0: a new one
  std::size_t bytes = 0;     ///< size of the object
  std::size_t offset = 0;
  bool shared = false;  ///< shared memory of a CTA
};
void add_region(const void* p, std::size_t bytes, Mapped mapped);
void remove_region(const void* p);
/// Forgets the accesses to this memory.
void forget(const void* p, std::size_t bytes);
void forget_flags();
/// Forgets the accesses to all memory. What actors know does not change.
void forget_all();
/// The name of an actor.
std::string name_of(Actor who);
/// The key of a flag, equal wherever the flag is mapped.
const void* key_of(const void* flag);

}  // namespace order
}  // namespace tilelace::emulated
