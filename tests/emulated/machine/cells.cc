// SPDX-License-Identifier: Apache-2.0
// What happened last to every word of memory, and whether what happens next may know that it is
// over.
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "machine/order.h"
#include "machine/sites.h"

namespace tilelace::emulated::order {
namespace {

/// What happened last to four bytes: a write, and reads of some since.
struct Cell {
  Actor wrote, read[2];
  std::uint32_t where;      ///< of the write, in the program
  std::uint8_t next;        ///< the read to be forgotten
  std::uint8_t adds : 1;    ///< the write
  std::uint8_t bytes : 4;   ///< that it wrote, a bit each
  std::uint8_t read_bytes;  ///< the same of the two reads, four bits each
  std::uint8_t age;         ///< of what is said here

  [[nodiscard]] std::uint8_t bytes_read(int by) const { return read_bytes >> 4 * by & 15U; }
  void set_bytes_read(int by, unsigned which) {
    read_bytes = static_cast<std::uint8_t>((read_bytes & ~(15U << 4 * by)) | which << 4 * by);
  }
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
  bool shared = false;
};

struct State {
  std::mutex mutex;
  std::map<const std::byte*, Region> regions;
  std::unordered_map<std::uint64_t, Object> objects;
  std::uint64_t own_objects = 0;
};
State& state() {
  static auto* const s = new State;
  return *s;
}

/// Until it is begun anew: something was found, and is all that is asked for.
bool quiet = false;
/// What cells of another age say is forgotten.
std::uint8_t age = 0;

std::uintptr_t page_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p) / kRegionUnit; }

/// Regions by page, of those asked for last; none, too: most are stacks.
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
  const std::scoped_lock lock(s.mutex);
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

/// For addr2line.
std::uint32_t in_program(const void* where) {
  Dl_info info{};
  if (dladdr(where, &info) == 0) return 0;
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(where) -
                                    static_cast<const std::byte*>(info.dli_fbase));
}

/// An access, and who does it.
struct Doing {
  Access access;
  Actor self;
  const Known& known;
  const Asked* asked;  ///< null: a thread does it
  const void* where;

  [[nodiscard]] bool over(Actor s, bool read, bool shared) const {
    if (s.number == 0) return true;
    if (asked == nullptr) return s.number == self.number || known.threads.knows(s);
    const bool own = s.number == asked->thread.number;
    if (!shared) return known.copies.knows(s) || (own && s.step <= asked->copies);
    // What was read is in registers: to write there takes no fence between the two ways to memory.
    if (read && (known.threads.knows(s) || (own && s.step <= asked->thread.step))) return true;
    return known.shared.knows(s) || (own && s.step <= asked->shared);
  }
};

void complain(const Doing& d, const char* does, Actor other, const char* did, const std::byte* p,
              const Region& r, std::uint32_t before) {
  if (sites::notice()) {
    quiet = true;
    return;
  }
  std::fprintf(stderr,
               "emulated GPUs: order: %s %s offset %zu of %s %llu, which %s %s; nothing says "
               "that it has%s\n  addr2line -Cfipe PROGRAM %#x",
               name_of(d.self).c_str(), does, static_cast<std::size_t>(p - r.base),
               r.shared ? "shared memory" : "memory", static_cast<unsigned long long>(r.object),
               name_of(other).c_str(), did,
               d.asked != nullptr ? " (to bulk copies: by a proxy fence, too)" : "",
               in_program(d.where));
  if (before != 0) std::fprintf(stderr, " %#x", before);
  std::fprintf(stderr, "\n");
  std::fflush(stderr);
  std::_Exit(1);
}

/// Of a cell, a bit each.
std::uint8_t bytes_in(const void* p, std::size_t bytes) {
  const std::size_t first = reinterpret_cast<std::uintptr_t>(p) % 4;
  return bytes < 4 ? ((1U << bytes) - 1U) << first & 15U : 15U;
}

/// Whether it may be done.
bool touch_cell(const Doing& d, Cell& c, const std::byte* p, const Region& r, std::uint8_t bytes,
                std::uint32_t place) {
  if (c.age != age) {
    c = {};
    c.age = age;
  }
  const bool reads = d.access == Access::read;
  const bool may_both = (d.access == Access::add && c.adds) || (bytes & c.bytes) == 0;
  if (!may_both && !d.over(c.wrote, false, r.shared)) {
    complain(d, reads ? "reads" : "writes", c.wrote, "wrote", p, r, c.where);
    return false;
  }
  if (reads) {
    int same = -1;
    for (int i = 0; i < 2; ++i)
      if (c.read[i].number == d.self.number || d.over(c.read[i], true, r.shared)) same = i;
    if (same < 0) same = c.next++ % 2;
    const bool again = c.read[same].number == d.self.number;
    c.set_bytes_read(same, bytes | (again ? c.bytes_read(same) : 0U));
    c.read[same] = d.self;
    return true;
  }
  for (int i = 0; i < 2; ++i) {
    Actor& s = c.read[i];
    const bool over = s.number == d.self.number || d.over(s, true, r.shared);
    if (!over && (c.bytes_read(i) & bytes) == 0) continue;
    if (!over) {
      complain(d, "writes", s, "read", p, r, 0);
      return false;
    }
    s = {};
    c.set_bytes_read(i, 0);
  }
  c.wrote = d.self;
  c.where = place;
  c.adds = d.access == Access::add;
  c.bytes = bytes & 15U;
  return true;
}

void touch_all(const Doing& d, const void* p, std::size_t bytes) {
  if (quiet) return;
  const Region r = find(p);
  if (r.cells == nullptr) return;
  const auto* const from = static_cast<const std::byte*>(p);
  const std::size_t first = static_cast<std::size_t>(from - r.base) / 4;
  const std::size_t last = (static_cast<std::size_t>(from - r.base) + bytes - 1) / 4;
  const std::uint32_t place = d.access == Access::read ? 0 : in_program(d.where);
  const std::uint8_t in_cell = bytes_in(p, bytes);
  Cell before{};  // of the cell before this one, and what became of it
  for (std::size_t i = first; i <= last; ++i) {
    Cell& c = r.cells[i];
    if (i > first && std::memcmp(&c, &before, sizeof c) == 0) {
      c = r.cells[i - 1];
      continue;
    }
    before = c;
    if (!touch_cell(d, c, r.base + i * 4, r, in_cell, place)) return;
  }
}

}  // namespace

void touch(Knower& who, Access access, const void* p, std::size_t bytes, const void* where) {
  if (bytes > 0) touch_all({access, who.self, *who.known, nullptr, where}, p, bytes);
}

void touch(const Asked& copy, Access access, const void* p, std::size_t bytes) {
  if (copy.knows == nullptr || bytes == 0) return;
  touch_all({access, copy.by, *copy.knows, &copy, copy.where}, p, bytes);
}

void touch_end(const Clocks& all, Actor self, const void* p, std::size_t bytes) {
  if (bytes > 0)
    touch_all({Access::write, self, {all, {}, {}}, nullptr, __builtin_return_address(0)}, p, bytes);
}

void touch_end(const Clocks& all, Actor self, const void* p, const Arrivals& others) {
  const Doing ends{Access::write, self, {all, {}, {}}, nullptr, __builtin_return_address(0)};
  for (const auto& [number, other] : others)
    if (!quiet && !all.knows(other))
      complain(ends, "leaves", other, "arrived there", static_cast<const std::byte*>(p), find(p),
               0);
}

const void* key_of(const void* flag) {
  const Region r = find(flag);
  if (r.cells == nullptr) return flag;
  return r.cells + (static_cast<const std::byte*>(flag) - r.base) / 4;
}

void add_region(const void* p, std::size_t bytes, Mapped mapped) {
  if (!is_on()) return;
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  const bool shared = mapped.shared;
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
  s.regions[base] = {base, bytes, o.cells + mapped.offset / 4, mapped.object, shared};
  ++region_changes;
}

void remove_region(const void* p) {
  if (!is_on()) return;
  State& s = state();
  const std::scoped_lock lock(s.mutex);
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

void forget(const void* p, std::size_t bytes) {
  const Region r = find(p);
  if (r.cells != nullptr) std::memset(static_cast<void*>(r.cells), 0, bytes * 8);
}

void forget_all() {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  if (++age == 0)
    for (auto& [number, o] : s.objects) madvise(o.cells, o.bytes * 8, MADV_DONTNEED);
  forget_flags();
  quiet = false;
}

}  // namespace tilelace::emulated::order
