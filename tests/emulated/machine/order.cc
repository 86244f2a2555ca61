// SPDX-License-Identifier: Apache-2.0
#include "machine/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>

namespace tilelace::emulated {

bool Clocks::Ended::has(const Ended& other) const {
  for (std::size_t i = 0; i < other.steps.size(); ++i)
    if (other.steps[i] > (i < steps.size() ? steps[i] : 0)) return false;
  return std::all_of(other.lanes.begin(), other.lanes.end(), [this](Actor a) { return knows(a); });
}

void Clocks::Ended::join(const Ended& other) {
  if (steps.size() < other.steps.size()) steps.resize(other.steps.size());
  for (std::size_t i = 0; i < other.steps.size(); ++i)
    steps[i] = std::max(steps[i], other.steps[i]);
  if (lanes.empty() && other.lanes.empty()) return;
  std::vector<Actor> both;
  both.reserve(lanes.size() + other.lanes.size());
  const auto add = [&](Actor a) {
    if (a.step > all(a.number)) both.push_back(a);
  };
  auto a = lanes.begin();
  auto b = other.lanes.begin();
  while (a != lanes.end() || b != other.lanes.end()) {
    if (b == other.lanes.end() || (a != lanes.end() && a->number < b->number))
      add(*a++);
    else if (a == lanes.end() || b->number < a->number)
      add(*b++);
    else
      add({a->number, std::max(a++->step, b++->step)});
  }
  lanes = std::move(both);
}

bool Clocks::Ended::knows_lane(Actor actor) const {
  const auto at = std::lower_bound(lanes.begin(), lanes.end(), actor,
                                   [](Actor a, Actor b) { return a.number < b.number; });
  return at != lanes.end() && at->number == actor.number && at->step >= actor.step;
}

Clocks::Ended& Clocks::own() {
  if (ended_ == nullptr)
    ended_ = std::make_shared<Ended>();
  else if (ended_.use_count() > 1)
    ended_ = std::make_shared<Ended>(*ended_);
  return *ended_;
}

void Clocks::join(const Clocks& other) {
  if (other.ended_ == nullptr || other.ended_ == ended_) return;
  if (ended_ == nullptr || other.ended_->has(*ended_))
    ended_ = other.ended_;
  else if (!ended_->has(*other.ended_))
    own().join(*other.ended_);
}

void Clocks::know(Actor actor) {
  if (knows(actor)) return;
  std::vector<Actor>& lanes = own().lanes;
  const auto at = std::lower_bound(lanes.begin(), lanes.end(), actor,
                                   [](Actor a, Actor b) { return a.number < b.number; });
  if (at == lanes.end() || at->number != actor.number)
    lanes.insert(at, actor);
  else
    at->step = std::max(at->step, actor.step);
}

void Clocks::know_all(Actor actor) {
  const unsigned group = actor.number / 32;
  if (ended_ != nullptr && ended_->lanes.empty() && ended_->all(actor.number) >= actor.step) return;
  Ended& e = own();
  if (e.steps.size() <= group) e.steps.resize(group + 1);
  e.steps[group] = std::max(e.steps[group], actor.step);
  if (e.lanes.empty()) return;
  const auto over = [&](Actor a) { return a.number / 32 == group && a.step <= e.steps[group]; };
  e.lanes.erase(std::remove_if(e.lanes.begin(), e.lanes.end(), over), e.lanes.end());
}

namespace order {
namespace {

struct Flag {
  Given given;
  Scope scope;
};

/// Of actors and flags; under the machine's lock.
struct State {
  std::unordered_map<const void*, Flag> flags;
  std::vector<std::uint32_t> steps{0};                          ///< of each group
  std::vector<std::map<std::uint32_t, std::string>> names{{}};  ///< from which step on
  std::deque<unsigned> unused;
  std::uint64_t versions = 0;
};
State& state() {
  static auto* const s = new State;
  return *s;
}

bool setting(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && std::strcmp(text, "1") == 0;
}

/// Lanes of a warp learn the same, one after the other: what came of it for the one before.
enum class Change : std::uint8_t { take, over, know, fence_copies, fence_shared };
template <class Make>
void change(Knower& who, Change what, std::uint64_t of, std::uint64_t step, const Make& make) {
  struct Made {
    Change what;
    std::uint64_t of, step;
    Knowledge from, to;
  };
  static std::array<Made, 32> all{};
  static std::size_t next = 0;
  for (const Made& m : all)
    if (m.from == who.known && m.what == what && m.of == of && m.step == step) {
      who.known = m.to;
      return;
    }
  auto to = std::make_shared<Known>(*who.known);
  make(*to);
  Made& m = all[next++ % all.size()];
  m = {what, of, step, std::move(who.known), to};
  who.known = std::move(to);
}

void advance(Knower& who) { who.lanes->top = std::max(who.lanes->top, ++who.self.step); }

void know_fenced(const Knower& from, Known& to) {
  const unsigned number = from.self.number;
  if (from.copies > 0) to.copies.know({number, from.copies});
  if (from.shared > 0) to.shared.know({number, from.shared});
}

void add(const Knowledge& known, Given& to) {
  to.version = ++state().versions;
  if (to.known == nullptr)
    to.known = std::make_shared<Known>(*known);
  else if (to.last != known)
    to.known->join(*known);
  to.last = known;
}

}  // namespace

const bool kOn = setting("TILELACE_EMULATED_ORDER");

void begin(Lanes& lanes, const std::string& name, int count) {
  State& s = state();
  // Numbers are used again as late as may be: an access is not told from those of who had it
  // before.
  if (s.unused.size() < 64) {
    s.unused.push_back(static_cast<unsigned>(s.names.size()));
    s.names.emplace_back();
    s.steps.push_back(0);
  }
  const unsigned group = s.unused.front();
  s.unused.pop_front();
  lanes = {group, ++s.steps[group], count};
  s.names[group][lanes.top] = name;
}

void begin(Knower& who, Lanes& lanes, int lane, Knowledge knows) {
  who = {};
  who.self = {32 * lanes.group + static_cast<unsigned>(lane), lanes.top};
  who.lanes = &lanes;
  who.known = std::move(knows);
}

void end(Lanes& lanes) {
  if (lanes.group == 0) return;
  State& s = state();
  s.steps[lanes.group] = lanes.top;
  s.unused.push_back(lanes.group);
  lanes = {};
}

void end(Actor& copies) {
  Lanes lanes{copies.number / 32, copies.step, 1};
  end(lanes);
  copies = {};
}

void leave(const std::vector<const Knower*>& lanes, Clocks& over) {
  const Known* last = nullptr;
  for (const Knower* k : lanes) {
    if (k->known.get() != last) over.join(k->known->threads);
    last = k->known.get();
    over.know_all({k->self.number, k->lanes->top});
  }
}

Asked ask(Actor& copies, Knower& thread, const char* name, const void* where) {
  if (!is_on()) return {};
  if (copies.number == 0) {
    Lanes made;
    begin(made, name_of(thread.self) + std::string(name), 1);
    copies = {32 * made.group, made.top};
  }
  ++copies.step;
  const Asked asked{copies, thread.self, thread.copies, thread.shared, thread.known, where};
  advance(thread);
  return asked;
}

void give(Knower& from, Given& to) {
  if (!is_on() || from.away > 0) return;
  add(from.known, to);
  to.known->threads.know(from.self);
  know_fenced(from, *to.known);
  advance(from);
}

void give(Actor copy, Given& to) {
  if (to.known == nullptr) to.known = std::make_shared<Known>();
  to.version = ++state().versions;
  to.known->threads.know_all(copy);
  to.known->shared.know_all(copy);
}

void take(Knower& to, const Given& from) {
  if (!is_on() || to.away > 0 || from.known == nullptr || to.taken == from.version) return;
  to.taken = from.version;
  change(to, Change::take, from.version, 0, [&](Known& k) { k.join(*from.known); });
}

void take(Knower& to, const Clocks& over) {
  if (to.away > 0) return;
  change(to, Change::over, reinterpret_cast<std::uintptr_t>(&over), 0, [&](Known& k) {
    k.threads.join(over);
    k.copies.join(over);
  });
}

void meet(const std::vector<Knower*>& all, Given& to) {
  if (all.empty()) return;
  struct Warp {
    Lanes* lanes;
    int here = 0;
    std::uint32_t copies = ~0U, shared = ~0U;  // of all of them
  };
  std::vector<Warp> warps;
  std::vector<const Known*> joined;
  for (Knower* k : all) {
    if (std::find(joined.begin(), joined.end(), k->known.get()) == joined.end()) {
      add(k->known, to);
      joined.push_back(k->known.get());
    }
    auto w = std::find_if(warps.begin(), warps.end(),
                          [&](const Warp& warp) { return warp.lanes == k->lanes; });
    if (w == warps.end()) w = warps.insert(w, Warp{k->lanes});
    ++w->here;
    w->copies = std::min(w->copies, k->copies);
    w->shared = std::min(w->shared, k->shared);
  }
  for (const Warp& w : warps) {
    if (w.here < w.lanes->live) continue;
    const unsigned number = 32 * w.lanes->group;
    to.known->threads.know_all({number, w.lanes->top});
    if (w.copies > 0) to.known->copies.know_all({number, w.copies});
    if (w.shared > 0) to.known->shared.know_all({number, w.shared});
    ++w.lanes->top;
  }
  for (Knower* k : all) {
    to.known->threads.know(k->self);
    know_fenced(*k, *to.known);
  }
  for (Knower* k : all) {
    k->known = to.known;
    advance(*k);
    k->self.step = k->lanes->top;
  }
}

void know(Knower& who, Actor copy, bool shared) {
  if (!is_on() || who.away > 0 || copy.number == 0) return;
  change(who, Change::know, copy.number, 2ULL * copy.step + (shared ? 1 : 0), [&](Known& k) {
    k.threads.know_all(copy);
    if (shared) k.shared.know_all(copy);
  });
}

void fence_copies(Knower& who) {
  if (!is_on() || who.away > 0) return;
  change(who, Change::fence_copies, 0, 0, [](Known& k) { k.copies.join(k.threads); });
  who.copies = who.self.step;
  advance(who);
}

void fence_shared(Knower& who) {
  if (!is_on() || who.away > 0) return;
  change(who, Change::fence_shared, 0, 0, [](Known& k) { k.shared.join(k.threads); });
  who.shared = who.self.step;
  advance(who);
}

void release(Knower& from, const void* flag, Scope scope, bool adds) {
  if (!is_on()) return;
  Flag& f = state().flags[key_of(flag)];
  if (!adds) f.given = {};
  f.scope = scope;
  give(from, f.given);
}

void acquire(Knower& to, const void* flag, Scope scope) {
  if (!is_on()) return;
  const auto at = state().flags.find(key_of(flag));
  if (at == state().flags.end()) return;
  const Scope& other = at->second.scope;
  if (other.device == scope.device || (other.wide && scope.wide)) take(to, at->second.given);
}

std::string name_of(Actor who) {
  const State& s = state();
  const auto& all = s.names[who.number / 32];
  const auto after = all.upper_bound(who.step);
  if (after == all.begin()) return "somebody";
  return fmt::format("{}{}", std::prev(after)->second,
                     who.number % 32 == 0 ? "" : fmt::format(" lane {}", who.number % 32));
}

void forget_flags() { state().flags.clear(); }

}  // namespace order
}  // namespace tilelace::emulated
