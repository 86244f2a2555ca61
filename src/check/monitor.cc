// SPDX-License-Identifier: Apache-2.0
#include "check/monitor.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "comm/signal.h"

namespace tilelace::check {

namespace {

constexpr int kEndedRing = 4;

std::size_t num_actors(const Monitor::Setup& setup) {
  return static_cast<std::size_t>(setup.ranks) * (static_cast<std::size_t>(setup.workers) + 1);
}

}  // namespace

std::string_view name_of(FindingKind kind) {
  return std::array<std::string_view, 11>{
      "deadlock",  "race",         "unwritten", "moved twice",  "computed twice", "never computed",
      "went back", "early result", "misplaced", "out of order", "disagree"}
      .at(static_cast<std::size_t>(kind));
}

void Monitor::Word::raise(std::uint32_t to, Release by) {
  before = release;
  epoch_before = epoch;
  release = by;
  epoch = to;
}

/// A wait that finds a later value learns only what the value it asked for would have told it:
/// other runs may find just that.
Release Monitor::Word::first_reaching(std::uint32_t want) const {
  return comm::epoch_reached(epoch_before, want) ? before : release;
}

Monitor::Monitor(const Setup& setup)
    : setup_(setup), clocks_(num_actors(setup)), actors_(num_actors(setup)) {
  const auto ranks = static_cast<std::size_t>(setup.ranks);
  const std::size_t actors = actors_.size();
  for (std::size_t a = 0; a < actors; ++a)
    actors_[a].rank = static_cast<int>(a) / (setup.workers + 1);
  slots_.resize(ranks * static_cast<std::size_t>(setup.slots));
  for (Slot& s : slots_) {
    s.now.assign(actors, 0);
    s.before.assign(actors, 0);
    s.checked.assign(actors, -1);
  }
  flag_words_.resize(ranks * static_cast<std::size_t>(setup.flag_slots));
  lines_.resize(ranks * static_cast<std::size_t>(setup.slots));
  results_.resize(ranks);
  for (Results& r : results_) r.reads.assign(actors, 0);
  headers_.assign(ranks * ranks, Word{setup.first_epoch - 1, setup.first_epoch - 1, {}, {}});
  ended_.assign(ranks * kEndedRing, Clock(actors, 0));
  ended_call_.assign(ranks * kEndedRing, -1);
}

std::size_t Monitor::slot_index(int rank, Index call, int slots) const {
  return static_cast<std::size_t>(rank * slots) + (epoch(call) & static_cast<unsigned>(slots - 1));
}

Monitor::Slot& Monitor::slot(int rank, Index call) {
  return slots_[slot_index(rank, call, setup_.slots)];
}

Monitor::Word& Monitor::word(int rank, Index call, Index flag) {
  auto& words = flag_words_[slot_index(rank, call, setup_.flag_slots)];
  const auto f = static_cast<std::size_t>(flag);
  if (f >= words.size()) words.resize(f + 1, unused_word());
  return words[f];
}

Monitor::Word& Monitor::line(int rank, Index call, Index unit) {
  auto& words = lines_[slot_index(rank, call, setup_.slots)];
  const auto u = static_cast<std::size_t>(unit);
  if (u >= words.size()) words.resize(u + 1, unused_word());
  return words[u];
}

Monitor::Word Monitor::unused_word() const {
  const std::uint32_t epoch = setup_.first_epoch - 1 - setup_.idle;
  return {epoch, epoch, {}, {}};
}

Monitor::Word& Monitor::header_word(int rank, int peer) {
  return headers_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(setup_.ranks) +
                  static_cast<std::size_t>(peer)];
}

Monitor::CallState* Monitor::find(Index call) {
  for (CallState& state : calls_) {
    if (state.call == call) return &state;
  }
  return nullptr;
}

Monitor::CallState& Monitor::open(Index call, const std::shared_ptr<const CallPlan>& plan) {
  if (CallState* state = find(call)) return *state;
  CallState& state = calls_.emplace_back();
  state.call = call;
  state.plan = plan;
  state.cells.resize(static_cast<std::size_t>(setup_.ranks * kRegions));
  for (int rank = 0; rank < setup_.ranks; ++rank) {
    for (int r = 0; r < kRegions; ++r) {
      const auto region = static_cast<Region>(r);
      if (!plan->has(region)) continue;
      state.cells[static_cast<std::size_t>(rank * kRegions + r)].resize(
          static_cast<std::size_t>(plan->cuts(region, rank).cells() * plan->cols(region)));
    }
    // At once, so that a run without findings does not grow them word by word.
    if (plan->num_flags() > 0) word(rank, call, plan->num_flags() - 1);
    if (plan->num_lines() > 0) line(rank, call, plan->num_lines() - 1);
  }
  return state;
}

void Monitor::begin_call(int a, Index call, const std::shared_ptr<const CallPlan>& plan,
                         bool ordered) {
  Actor& self = actor(a);
  CallState& state = open(call, plan);
  self.call = call;
  self.state = state.plan->spec() == plan->spec() ? &state : nullptr;
  if (self.state == nullptr) {
    state.given_up = true;
    add(FindingKind::disagree,
        fmt::format("call {}: {} runs {}, others run {}", epoch(call), role(a),
                    to_string(plan->spec()), to_string(state.plan->spec())));
  }
  self.steps = 0;
  self.admitted = false;
  self.terms = 0;
  const auto before = static_cast<std::size_t>(rank_of(a) * kEndedRing + (call + 3) % kEndedRing);
  if (ordered && ended_call_[before] == call - 1) clocks_.acquire(a, ended_[before]);
  if (ordered) return_results(a);
}

void Monitor::end_call(int a, bool whole) {
  Actor& self = actor(a);
  const auto at = static_cast<std::size_t>(rank_of(a) * kEndedRing + self.call % kEndedRing);
  if (ended_call_[at] != self.call) ended_[at].assign(actors_.size(), 0);
  ended_call_[at] = self.call;
  worked(actors_.size());
  join(ended_[at], clocks_.known(a));
  clocks_.release(a);
  self.state = nullptr;
  if (CallState* state = find(self.call)) {
    ++state->ended;
    state->given_up |= !whole;
  }
  close_finished();
}

/// Actors that had no part in this call come behind it all the same, when they begin one: now, so
/// that what all know can be forgotten.
void Monitor::catch_up(const CallState& state) {
  for (int a = 0; a < static_cast<int>(actors_.size()); ++a) {
    if (a % (setup_.workers + 1) <= state.plan->workers() || actor(a).state != nullptr) continue;
    const auto at = static_cast<std::size_t>(rank_of(a) * kEndedRing + state.call % kEndedRing);
    if (ended_call_[at] == state.call) clocks_.acquire(a, ended_[at]);
  }
}

/// Whoever ended a call has ended, or given up, all before it.
void Monitor::close_finished() {
  std::size_t closed = 0;
  worked(calls_.size());
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const CallState& state = calls_[i];
    if (state.given_up || state.ended < setup_.ranks * (state.plan->workers() + 1)) continue;
    check_results(state);
    closed = i + 1;
  }
  if (closed == 0) return;
  catch_up(calls_[closed - 1]);
  clocks_.trim();
  for (; closed > 0; --closed) calls_.pop_front();
}

void Monitor::on(int a, const Step& step) {
  Actor& self = actor(a);
  if (self.state == nullptr) return;
  self.step = &step;
  ++self.steps;
  if (step.verb == Verb::signal) return on_signal(a, step);
  if (step.verb == Verb::signal_header)
    return raise_word(a, header_word(step.peer, rank_of(a)), "header");
  if (step.verb == Verb::wait) {
    use_slot(a, rank_of(a), nullptr);
    clocks_.acquire(a, word(rank_of(a), self.call, step.at).first_reaching(epoch(self.call)));
    return;
  }
  if (step.verb == Verb::admit) {
    for (int p = 0; p < setup_.ranks; ++p) {
      if (p == rank_of(a)) continue;
      clocks_.acquire(a, header_word(rank_of(a), p).first_reaching(epoch(self.call)));
    }
    self.admitted = true;
    return;
  }
  if (self.state->plan->spec().exchange) add_in_order(a, step);
  if (step.verb == Verb::take_line) on_line(a, step);
  self.state->plan->visit_any(rank_of(a), [&](const auto& schedule) {
    each_access(schedule, step, [&](const Access& access) { on_access(a, access); });
  });
  if (step.verb == Verb::put_line) on_line(a, step);
}

void Monitor::on_signal(int a, const Step& step) {
  use_slot(a, step.peer, nullptr);
  Word& w = word(step.peer, actor(a).call, step.at);
  const bool raises = comm::epoch_reached(epoch(actor(a).call), w.epoch + 1);
  if (raises && clocks_.knows(a, w.release.actor, w.release.time)) {
    w.raise(epoch(actor(a).call), clocks_.release(a));
    return;
  }
  raise_word(a, w, fmt::format("flag {}", step.at));
}

void Monitor::raise_word(int a, Word& w, const std::string& name) {
  Actor& self = actor(a);
  const std::uint32_t value = epoch(self.call);
  if (!comm::epoch_reached(value, w.epoch + 1)) {
    add(FindingKind::went_back,
        fmt::format("{}: {} goes from {} to {}", where(a), name, w.epoch, value));
  } else if (!clocks_.knows(a, w.release.actor, w.release.time)) {
    add(FindingKind::race, fmt::format("{}: {} not ordered after {}, who raised it to {}", where(a),
                                       name, role(w.release.actor), w.epoch));
  }
  w.raise(value, clocks_.release(a));
}

std::string Monitor::role(int a) const {
  const int index = a % (setup_.workers + 1);
  return index == 0 ? fmt::format("rank {} copy", rank_of(a))
                    : fmt::format("rank {} compute {}", rank_of(a), index - 1);
}

std::string Monitor::where(int a) const {
  const Actor& self = actor(a);
  const CallPlan& plan = *self.state->plan;
  const Step& step = *self.step;
  std::string what = to_string(step);
  if (step.verb == Verb::wait) {
    what = fmt::format("wait {}", plan.flag(rank_of(a), step.at).text);
  } else if (step.verb == Verb::signal) {
    what = fmt::format("signal {}@{}", plan.flag(step.peer, step.at).text, step.peer);
  }
  return fmt::format("{} call {} {} step {} {}", name_of(plan.spec()), epoch(self.call), role(a),
                     self.steps, what);
}

std::string Monitor::text(int a, const Access& access, RowRange rows) const {
  return fmt::format("{} {} {}@{} rows {}..{}", where(a), access.write ? "writes" : "reads",
                     name_of(access.region), access.owner, rows.begin, rows.end);
}

void Monitor::add(FindingKind kind, const std::string& text) {
  ++num_findings_;
  if (findings_.size() < setup_.max_findings) {
    findings_.push_back({kind, fmt::format("{}: {}", name_of(kind), text)});
  }
}

}  // namespace tilelace::check
