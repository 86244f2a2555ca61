// SPDX-License-Identifier: Apache-2.0
#include "machine/order.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

namespace tilelace::emulated {

void Clocks::join(const Clocks& other) {
  if (steps_.size() < other.steps_.size()) steps_.resize(other.steps_.size());
  for (std::size_t i = 0; i < other.steps_.size(); ++i)
    steps_[i] = std::max(steps_[i], other.steps_[i]);
}

void Clocks::know(unsigned actor, std::uint32_t step) {
  if (steps_.size() <= actor) steps_.resize(actor + 1);
  steps_[actor] = std::max(steps_[actor], step);
}

namespace order {
namespace {

/// What happened last to four bytes: a write, and reads of some since.
struct Cell {
  Actor wrote, read[2];
  std::uint32_t where;  ///< of the write, in the program
  std::uint8_t next;    ///< the read to be forgotten
  bool adds, narrow;    ///< the write; of fewer bytes: maybe not the same
};
static_assert(sizeof(Cell) == 32);

struct Object {
  Cell* cells = nullptr;
  std::size_t bytes = 0;
  int pieces = 0;
};

struct Region {
  const std::byte* base = nullptr;
  std::size_t bytes = 0;
  Cell* cells = nullptr;  ///< of the first byte
  std::uint64_t object = 0;
};

struct Flag {
  Known known;
  Scope scope;
};

/// All that is known of memory and actors; under the machine's lock but for regions.
struct State {
  std::mutex regions_mutex;
  std::map<const std::byte*, Region> regions;
  std::unordered_map<std::uint64_t, Object> objects;
  std::uint64_t own_objects = 0;
  std::unordered_map<const void*, Flag> flags;
  std::vector<std::uint32_t> steps{0};                          ///< of each number
  std::vector<std::map<std::uint32_t, std::string>> names{{}};  ///< from which step on
  std::deque<unsigned> unused;

  [[nodiscard]] const char* name_of(Actor s) const {
    const auto& all = names[s.number];
    const auto after = all.upper_bound(s.step);
    return after == all.begin() ? "somebody" : std::prev(after)->second.c_str();
  }
};
State& state() {
  static auto* const s = new State;
  return *s;
}

std::uintptr_t page_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p) / kRegionUnit; }

/// Regions by page, of those asked for last; none, too: most are shared memory and stacks.
struct Cached {
  std::uintptr_t page = 0;
  Region region;
};
std::array<Cached, 4096> cache;           // the machine's thread's
std::atomic<unsigned> region_changes{0};  // by the host's

Region find(const void* p) {
  static unsigned seen = 0;
  if (const unsigned now = region_changes; now != seen) {
    seen = now;
    cache.fill({});
  }
  const std::uintptr_t page = page_of(p);
  Cached& c = cache[page % cache.size()];
  if (c.page == page) return c.region;
  State& s = state();
  const std::scoped_lock lock(s.regions_mutex);
  c.page = page;
  c.region = {};
  auto after = s.regions.upper_bound(static_cast<const std::byte*>(p));
  if (after != s.regions.begin()) {
    --after;
    if (static_cast<const std::byte*>(p) < after->first + after->second.bytes)
      c.region = after->second;
  }
  return c.region;
}

const void* key_of(const void* flag) {
  const Region r = find(flag);
  if (r.cells == nullptr) return flag;
  return r.cells + (static_cast<const std::byte*>(flag) - r.base) / 4;
}

/// For addr2line.
std::uint32_t in_program(const void* where) {
  Dl_info info{};
  if (dladdr(where, &info) == 0) return 0;
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(where) -
                                    static_cast<const std::byte*>(info.dli_fbase));
}

[[noreturn]] void complain(Actor self, const char* does, Actor other, const char* did,
                           const std::byte* p, const Region& r, const void* where,
                           std::uint32_t before, bool copies) {
  const State& s = state();
  std::fprintf(stderr,
               "emulated GPUs: order: %s %s offset %zu of memory %llu, which %s %s; nothing says "
               "that it has%s\n  addr2line -Cfipe PROGRAM %#x",
               s.name_of(self), does, static_cast<std::size_t>(p - r.base),
               static_cast<unsigned long long>(r.object), s.name_of(other), did,
               copies ? " (to bulk copies: by a proxy fence, too)" : "", in_program(where));
  if (before != 0) std::fprintf(stderr, " %#x", before);
  std::fprintf(stderr, "\n");
  std::fflush(stderr);
  std::_Exit(1);
}

void touch_all(Actor self, Access access, const Clocks& knows, bool copies, const void* p,
               std::size_t bytes, const void* where) {
  const Region r = find(p);
  if (r.cells == nullptr) return;
  const auto* const from = static_cast<const std::byte*>(p);
  const std::size_t first = static_cast<std::size_t>(from - r.base) / 4;
  const std::size_t last = (static_cast<std::size_t>(from - r.base) + bytes - 1) / 4;
  const auto over = [&](Actor s) { return s.number == 0 || knows.knows(s.number, s.step); };
  const auto fail = [&](std::size_t i, const char* does, Actor other, const char* did,
                        std::uint32_t before) {
    complain(self, does, other, did, r.base + i * 4, r, where, before, copies);
  };
  const std::uint32_t place = access == Access::read ? 0 : in_program(where);
  for (std::size_t i = first; i <= last; ++i) {
    Cell& c = r.cells[i];
    const bool may_both = (access == Access::add && c.adds) || (bytes < 4 && c.narrow);
    if (!may_both && !over(c.wrote))
      fail(i, access == Access::read ? "reads" : "writes", c.wrote, "wrote", c.where);
    if (access == Access::read) {
      Actor* same = nullptr;
      for (Actor& s : c.read)
        if (s.number == self.number || over(s)) same = &s;
      if (same == nullptr) same = &c.read[c.next++ % 2U];
      *same = self;
      continue;
    }
    for (Actor& s : c.read) {
      if (s.number != self.number && !over(s)) fail(i, "writes", s, "read", 0);
      s = {};
    }
    c.wrote = self;
    c.where = place;
    c.adds = access == Access::add;
    c.narrow = bytes < 4;
  }
}

bool setting(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && std::strcmp(text, "1") == 0;
}

}  // namespace

const bool kOn = setting("TILELACE_EMULATED_ORDER");

bool is_without(Guard guard) {
  static const char* const names[] = {"acquire",     "release",   "barrier",
                                      "proxy_fence", "bulk_wait", "griddep_wait"};
  static const char* const text = std::getenv("TILELACE_EMULATED_WITHOUT");
  return text != nullptr && std::strcmp(text, names[static_cast<int>(guard)]) == 0;
}

void begin(Knower& who, const std::string& name, const Clocks& knows) {
  State& s = state();
  // Numbers are used again as late as may be: an access is not told from those of who had it
  // before.
  if (s.unused.size() < 64) {
    s.unused.push_back(static_cast<unsigned>(s.names.size()));
    s.names.emplace_back();
    s.steps.push_back(0);
  }
  const unsigned number = s.unused.front();
  s.unused.pop_front();
  who = {};
  who.self = {number, ++s.steps[number]};
  s.names[number][who.self.step] = name;
  who.known.threads = who.known.copies = knows;
  who.known.threads.know(number, who.self.step);
}

void end(Actor& who) {
  if (who.number == 0) return;
  State& s = state();
  s.steps[who.number] = who.step;
  s.unused.push_back(who.number);
  who = {};
}

Asked ask(Actor& copies, const Knower& warp, const char* name, const void* where) {
  if (!is_on()) return {};
  if (copies.number == 0) {
    Knower made;
    begin(made, state().name_of(warp.self) + std::string(name), {});
    copies = made.self;
  }
  ++copies.step;
  return {copies, std::make_shared<const Clocks>(warp.known.copies), where};
}

void give(Knower& from, Known& to) {
  static std::uint64_t ids = 0;
  if (!is_on() || (to.id != 0 && from.given == to.id)) return;  // by another lane
  if (to.id == 0) to.id = ++ids;
  to.version = ++ids;
  from.given = to.id;
  to.join(from.known);
  from.known.threads.know(from.self.number, ++from.self.step);
}

void take(Knower& to, const Known& from) {
  if (!is_on() || to.taken == from.version) return;
  to.taken = from.version;
  to.given = 0;
  to.known.join(from);
}

void take(Knower& to, const Clocks& over) {
  to.given = 0;
  to.known.join({over, over});
}

void know(Knower& who, unsigned actor, std::uint32_t step) {
  who.given = 0;
  who.known.threads.know(actor, step);
}

void fence_copies(Knower& who) {
  if (!is_on() || is_without(Guard::proxy_fence)) return;
  who.given = 0;
  who.known.copies.join(who.known.threads);
}

void release(Knower& from, const void* flag, Scope scope, bool adds) {
  if (!is_on() || (scope.wide && is_without(Guard::release))) return;
  Flag& f = state().flags[key_of(flag)];
  if (!adds) f.known = {};
  f.scope = scope;
  give(from, f.known);
}

void acquire(Knower& to, const void* flag, Scope scope) {
  if (!is_on() || (scope.wide && is_without(Guard::acquire))) return;
  const auto at = state().flags.find(key_of(flag));
  if (at == state().flags.end()) return;
  const Scope& other = at->second.scope;
  if (other.device == scope.device || (other.wide && scope.wide)) take(to, at->second.known);
}

void touch(Knower& who, Access access, const void* p, std::size_t bytes, const void* where) {
  who.given = 0;
  if (bytes == 0) return;
  touch_all(who.self, access, who.known.threads, false, p, bytes, where);
}

void touch(const Asked& copy, Access access, const void* p, std::size_t bytes) {
  if (copy.knows == nullptr || bytes == 0) return;
  touch_all(copy.by, access, *copy.knows, true, p, bytes, copy.where);
}

void add_region(const void* p, std::size_t bytes, Mapped mapped) {
  if (!is_on()) return;
  State& s = state();
  const std::scoped_lock lock(s.regions_mutex);
  if (mapped.object == 0) mapped = {++s.own_objects | std::uint64_t{1} << 63U, bytes, 0};
  Object& o = s.objects[mapped.object];
  if (o.cells == nullptr) {
    o.bytes = mapped.bytes;
    void* cells = mmap(nullptr, o.bytes * 8, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) {
      std::perror("emulated GPUs: memory for what happened");
      std::abort();
    }
    o.cells = static_cast<Cell*>(cells);
  }
  ++o.pieces;
  const auto* const base = static_cast<const std::byte*>(p);
  s.regions[base] = {base, bytes, o.cells + mapped.offset / 4, mapped.object};
  ++region_changes;
}

void remove_region(const void* p) {
  if (!is_on()) return;
  State& s = state();
  const std::scoped_lock lock(s.regions_mutex);
  const auto at = s.regions.find(static_cast<const std::byte*>(p));
  if (at == s.regions.end()) return;
  const auto object = s.objects.find(at->second.object);
  s.regions.erase(at);
  if (--object->second.pieces == 0) {
    munmap(object->second.cells, object->second.bytes * 8);
    s.objects.erase(object);
  }
  ++region_changes;
}

}  // namespace order
}  // namespace tilelace::emulated
