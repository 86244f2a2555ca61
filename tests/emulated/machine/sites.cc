// SPDX-License-Identifier: Apache-2.0
#include "machine/sites.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "machine/machine.h"

namespace tilelace::emulated {
namespace sites {
namespace {

/// Kernels after which it is another one's turn.
constexpr int kPatience = 32;

struct Entry {
  long reached = 0;           ///< calls
  int away = 0, noticed = 0;  ///< times
  int last = 0;               ///< round in which it was reached
};

/// Of the machine's thread, but for the end.
struct State {
  const char* const one = std::getenv("TILELACE_EMULATED_WITHOUT");
  const char* const file = std::getenv("TILELACE_EMULATED_SITES");
  std::map<std::string, Entry> all;
  std::unordered_map<const char*, Entry*> by_place;
  Entry* away = nullptr;
  bool reached = false, noticed = false;  ///< while it has been away
  int inside = 0;                         ///< calls without it that have not returned
  int kernels = 0;                        ///< that have ended since it was reached
  int round = 1;                          ///< from idle to idle

  State() {
    if (file != nullptr) std::atexit(write);
  }
  static void write();
};
State& state() {
  static auto* const s = new State;
  return *s;
}

void State::write() {
  std::FILE* const out = std::fopen(state().file, "w");
  if (out == nullptr) {
    std::perror("emulated GPUs: TILELACE_EMULATED_SITES");
    return;
  }
  for (const auto& [name, e] : state().all)
    std::fprintf(out, "%s %ld %d %d\n", name.c_str(), e.reached, e.away, e.noticed);
  std::fclose(out);
}

Entry& entry_of(const char* name) {
  State& s = state();
  Entry*& e = s.by_place[name];
  if (e == nullptr) e = &s.all[name];
  return *e;
}

}  // namespace

bool notice() {
  State& s = state();
  if (s.file == nullptr || s.away == nullptr) return false;
  s.noticed = true;
  return true;
}

/// What is reached now, before what may not be reached again; of those what was away least.
void choose() {
  State& s = state();
  s.away = nullptr;
  const auto late = [&](const Entry& e) { return e.last < s.round - 8; };
  for (auto& [name, e] : s.all) {
    if (e.noticed > 0) continue;
    if (s.away == nullptr || std::pair(late(e), e.away) < std::pair(late(*s.away), s.away->away))
      s.away = &e;
  }
}

void end_kernel() {
  State& s = state();
  if (s.reached) ++s.kernels;
}

bool advance(bool idle) {
  State& s = state();
  const bool enough = s.noticed || s.kernels >= kPatience;
  if (s.file == nullptr || (!idle && !enough) || s.inside > 0) return false;
  const bool goes_on = s.away != nullptr && s.away->last == s.round;
  if (idle) ++s.round;
  if (goes_on && !enough) return false;
  if (s.away != nullptr && s.reached) ++s.away->away;
  if (s.noticed) ++s.away->noticed;
  const bool changed = s.reached;
  s.reached = s.noticed = false;
  s.kernels = 0;
  choose();
  return changed;
}

}  // namespace sites

Site::Site(const char* name) {
  auto& s = sites::state();
  if ((s.one == nullptr && s.file == nullptr) || !Machine::is_running()) return;
  sites::Entry& e = sites::entry_of(name);
  ++e.reached;
  e.last = s.round;
  if (s.one != nullptr && s.away == nullptr && std::string(s.one) == name) s.away = &e;
  if (&e != s.away || s.noticed) return;
  s.reached = true;
  ++s.inside;
  without_ = &Machine::self();
  ++without_->knower.away;
}

Site::~Site() {
  if (without_ == nullptr) return;
  --without_->knower.away;
  --sites::state().inside;
}

}  // namespace tilelace::emulated
