// SPDX-License-Identifier: Apache-2.0
// Checks what a program's flags, barriers and fences guarantee, not only what happened in this run.
// An actor that accesses memory (device or shared) must know that conflicting accesses have ended.
// Knowledge passes from a release to the acquire that sees it, through barriers, and from kernel to
// kernel, as in the memory model of PTX. Bulk copies and products (of tensor cores) know only what
// came through a proxy fence, from an earlier kernel, or by a wait for bulk copies or products.
// TILELACE_EMULATED_ORDER=1 turns the check on. Then an unordered access ends the process, except
// in runs that disable one site after the other (machine/sites.h).
//
// Actors are lanes, the bulk copies of a thread (reads and writes separately), the products of a
// warpgroup, and operations of streams. All host threads share what they know.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tilelace::emulated {

/// An actor and its step, a logical clock. Numbers come in groups of 32. The lanes of a warp share
/// a group; every other actor has a group to itself. Number 0: no actor yet.
struct Actor {
  unsigned number = 0;  ///< 32 * group + lane
  std::uint32_t step = 0;
};

/// The last arrival of each actor, by the actor's number.
using Arrivals = std::map<unsigned, Actor>;

/// A vector clock: for each actor, the last step that is known to have ended. Copy on write.
class Clocks {
 public:
  void join(const Clocks& other);
  void know(Actor actor);
  /// Adds this step for all lanes of the actor's group.
  void know_all(Actor actor);
  [[nodiscard]] bool knows(Actor actor) const { return ended_ != nullptr && ended_->knows(actor); }

 private:
  struct Ended {
    std::vector<std::uint32_t> steps;  ///< by group: the last step known to have ended on all lanes
    std::vector<Actor> lanes;          ///< lanes for which a later step is known, sorted by number

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

  std::shared_ptr<Ended> ended_;  ///< null: no step is known
};

/// What has ended, as known to threads, to asynchronous operations on device memory (`copies`), and
/// to asynchronous operations on shared memory (`shared`).
struct Known {
  Clocks threads, copies, shared;

  void join(const Known& other) {
    threads.join(other.threads);
    copies.join(other.copies);
    shared.join(other.shared);
  }
};
using Knowledge = std::shared_ptr<const Known>;

/// Lanes that share a group of numbers. `top`: the largest step of any lane.
struct Lanes {
  unsigned group = 0;
  std::uint32_t top = 0;
  int live = 0;
};

/// An actor that gains knowledge: a lane, or an operation of a stream.
struct Knower {
  Actor self;
  Lanes* lanes = nullptr;
  Knowledge known;
  /// `copies`: step of this actor at its last fence_copies(); `shared`: at its last fence_shared().
  std::uint32_t copies = 0, shared = 0;
  std::uint64_t taken = 0;  ///< Given::version that the knower took last
  int away = 0;             ///< depth of nested calls from disabled sites (machine/sites.h)
};

/// The knowledge that actors have left at a flag or barrier, one after the other.
struct Given {
  std::shared_ptr<Known> known;
  Knowledge last;  ///< what was added last
  std::uint64_t version = 0;
};

/// A requested asynchronous operation, and what it may rely on. Empty if the check is off.
struct Asked {
  Actor by, thread;                      ///< `by`: the operation; `thread`: who requested it
  std::uint32_t copies = 0, shared = 0;  ///< Knower::copies and Knower::shared of the thread
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
/// Called when a CTA or a copy ends: adds to `over` what its lanes knew and did.
void leave(const std::vector<const Knower*>& lanes, Clocks& over);

/// Adds 1 to the step of `copies`, for a new operation. If `copies.number` is 0, makes the actor.
Asked ask(Actor& copies, Knower& thread, const char* name, const void* where);

/// Adds to `to` what `from` knows and has done so far, as a release does.
void give(Knower& from, Given& to);
void give(Actor copy, Given& to);
void take(Knower& to, const Given& from);
/// Adds `over`, what an ended kernel knew and did, to Known::threads and Known::copies of `to`.
void take(Knower& to, const Clocks& over);
/// Lanes that wait for each other learn what each of them knows, and what `to` already holds.
void meet(const std::vector<Knower*>& all, Given& to);
/// Called when `who` has waited for a copy: `who` then knows that the copy has ended. If `shared`,
/// asynchronous operations on shared memory that `who` requests later know it, too.
void know(Knower& who, Actor copy, bool shared);
/// A proxy fence, after which new async operations of `who` on device memory know what `who` knows.
void fence_copies(Knower& who);
void fence_shared(Knower& who);  ///< the same for shared memory

/// The scope of a flag operation by an actor on `device`. `wide`: system scope.
struct Scope {
  int device = 0;
  bool wide = true;
};
void release(Knower& from, const void* flag, Scope scope, bool adds);
void acquire(Knower& to, const void* flag, Scope scope);

enum class Access : std::uint8_t { read, write, add };
void touch(Knower& who, Access access, const void* p, std::size_t bytes, const void* where);
void touch(const Asked& copy, Access access, const void* p, std::size_t bytes);

/// Checks, when a CTA ends, that no access to its memory is in flight. `all`: what its lanes know.
void touch_end(const Clocks& all, Actor self, const void* p, std::size_t bytes);
/// The same for an mbarrier at `p`. `others`: the last arrivals of other CTAs' actors. The recorded
/// history of a word has only the last write and two reads, so it may lack some arrivals.
void touch_end(const Clocks& all, Actor self, const void* p, const Arrivals& others);

/// Memory whose accesses are recorded. Memory that is mapped at several addresses is one object.
/// Addresses and lengths are multiples of kRegionUnit.
constexpr std::size_t kRegionUnit = 1 << 16;
struct Mapped {
  std::uint64_t object = 0;  ///< number of the object; 0: a new one
  std::size_t bytes = 0;     ///< size of the object
  std::size_t offset = 0;
  bool shared = false;  ///< whether this is shared memory of a CTA
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
