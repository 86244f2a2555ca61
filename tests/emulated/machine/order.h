// SPDX-License-Identifier: Apache-2.0
// What the program's flags, barriers and fences promise, beside what happened this time: whoever
// reads or writes memory of a device must know that others' accesses to it are over. Knowledge goes
// from a release to the acquire that sees it, through barriers, and from kernel to kernel, as in
// the memory model of PTX; to bulk copies only through a proxy fence. TILELACE_EMULATED_ORDER=1
// turns it on: the first access that nothing orders ends the process.
//
// Actors are warps (what lanes of one owe each other does not show), the bulk loads and the bulk
// stores of a thread, and operations of streams. Shared memory is left out. The host is taken for
// one thread: what one rank's has seen all know.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilelace::emulated {

/// How many steps of each actor are known to be over.
class Clocks {
 public:
  void join(const Clocks& other);
  void know(unsigned actor, std::uint32_t step);
  [[nodiscard]] bool knows(unsigned actor, std::uint32_t step) const {
    return actor < steps_.size() && steps_[actor] >= step;
  }

 private:
  std::vector<std::uint32_t> steps_;
};

/// What is over for threads, and for bulk copies that they ask for.
struct Known {
  Clocks threads, copies;
  std::uint64_t id = 0, version = 0;  ///< since it was empty; since it was given to

  void join(const Known& other) {
    threads.join(other.threads);
    copies.join(other.copies);
  }
};

/// Where an actor is: how far it is itself. Number 0: none yet.
struct Actor {
  unsigned number = 0;
  std::uint32_t step = 0;
};

/// A warp, or an operation of a stream.
struct Knower {
  Actor self;
  Known known;
  std::uint64_t given = 0, taken = 0;  ///< an id, and nothing has changed since; a version
};

/// A bulk copy that was asked for, and what it may take for granted. Empty where order is off.
struct Asked {
  Actor by;
  std::shared_ptr<const Clocks> knows;
  const void* where = nullptr;
};

namespace order {

/// What can be taken away, to see that it is missed: TILELACE_EMULATED_WITHOUT=acquire (at system
/// scope, as release) and so on.
enum class Guard : std::uint8_t { acquire, release, barrier, proxy_fence, bulk_wait, griddep_wait };
bool is_without(Guard guard);

extern const bool kOn;
inline bool is_on() { return kOn; }

void begin(Knower& who, const std::string& name, const Clocks& knows);
void end(Actor& who);
/// As begin, of a thread's bulk loads or stores, the first time; then the next of them.
Asked ask(Actor& copies, const Knower& warp, const char* name, const void* where);

/// What the knower knows goes to who meets it there; what it does later does not.
void give(Knower& from, Known& to);
void take(Knower& to, const Known& from);
/// Of a kernel that is over, for threads and bulk copies alike.
void take(Knower& to, const Clocks& over);
/// Of bulk stores that were waited for.
void know(Knower& who, unsigned actor, std::uint32_t step);
/// Bulk copies that are asked for from now on see what threads know.
void fence_copies(Knower& who);

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

/// Memory of a device, with what happened to it; mapped in several places it is one object still.
/// Addresses and lengths are multiples of kRegionUnit.
constexpr std::size_t kRegionUnit = 1 << 16;
struct Mapped {
  std::uint64_t object = 0;  ///< 0: of its own
  std::size_t bytes = 0;     ///< of the object
  std::size_t offset = 0;
};
void add_region(const void* p, std::size_t bytes, Mapped mapped);
void remove_region(const void* p);

}  // namespace order
}  // namespace tilelace::emulated
