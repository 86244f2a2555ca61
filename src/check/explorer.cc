// SPDX-License-Identifier: Apache-2.0
#include "check/explorer.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "comm/signal.h"

namespace tilelace::check {
namespace {

constexpr std::size_t kMaxFindings = 8;
constexpr int kBlockedShown = 4;

Monitor::Setup setup_of(const CheckConfig& c) {
  Monitor::Setup setup;
  setup.ranks = c.ranks;
  setup.workers = c.workers;
  setup.first_epoch = c.first_epoch;
  setup.slots = c.mutant == Mutant::one_slot ? 1 : 2;
  setup.idle = c.idle;
  setup.flag_slots = c.mutant == Mutant::one_flag_set ? 1 : 2;
  setup.max_findings = kMaxFindings;
  return setup;
}

}  // namespace

Explorer::Explorer(const CheckConfig& config, const PreparedCalls& calls, bool judged)
    : config_(config), calls_(calls), judged_(judged), monitor_(setup_of(config)) {
  report_.mutated = calls.mutated;
  runners_.resize(static_cast<std::size_t>(config.ranks * actors_of_rank()));
  make_streams();
  make_priorities();
  for (const auto& p : calls.plans)
    flags_of_slot_ = std::max(flags_of_slot_, static_cast<std::size_t>(p->num_flags()));
  for (const auto& p : calls.plans)
    lines_of_slot_ = std::max(lines_of_slot_, static_cast<std::size_t>(p->num_lines()));
  const auto ranks = static_cast<std::size_t>(config.ranks);
  flags_.assign(2 * ranks * flags_of_slot_, {config.first_epoch - 1 - config.idle, -1});
  lines_.assign(2 * ranks * lines_of_slot_, {config.first_epoch - 1 - config.idle, -1});
  headers_.assign(ranks * ranks, config.first_epoch - 1);
  header_waiters_.assign(ranks, -1);
}

void Explorer::make_streams() {
  const bool apart = config_.mutant == Mutant::send_before_consumption;
  const bool copy_last = config_.mutant == Mutant::waiters_before_senders;
  for (int rank = 0; rank < config_.ranks; ++rank) {
    std::vector<int> actors(static_cast<std::size_t>(actors_of_rank()));
    std::iota(actors.begin(), actors.end(), rank * actors_of_rank());
    if (apart) {
      streams_.push_back({rank, {actors.front()}, -1, 0, 0});
      actors.erase(actors.begin());
    }
    if (copy_last) std::rotate(actors.begin(), actors.begin() + 1, actors.end());
    streams_.push_back({rank, std::move(actors), -1, 0, 0});
  }
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    for (const int actor : streams_[s].launch) {
      runner(actor).rank = streams_[s].rank;
      runner(actor).stream = static_cast<int>(s);
    }
  }
}

void Explorer::make_priorities() {
  std::vector<std::uint32_t> order(runners_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::reverse(order.begin(), order.end());
  if (config_.seed != 0) {
    std::mt19937_64 random(config_.seed);
    std::shuffle(order.begin(), order.end(), random);
  }
  for (std::size_t a = 0; a < runners_.size(); ++a) runners_[a].priority = order[a];
}

std::size_t Explorer::flag_at(int rank, Index call, Index flag) const {
  const std::size_t slot = config_.mutant == Mutant::one_flag_set ? 0 : epoch(call) & 1U;
  return (static_cast<std::size_t>(rank) * 2 + slot) * flags_of_slot_ +
         static_cast<std::size_t>(flag);
}

std::size_t Explorer::line_at(int rank, Index call, Index unit) const {
  const std::size_t slot = config_.mutant == Mutant::one_slot ? 0 : epoch(call) & 1U;
  return (static_cast<std::size_t>(rank) * 2 + slot) * lines_of_slot_ +
         static_cast<std::size_t>(unit);
}

/// Who is the place-th to be launched: the copy role, or the workers that come before it.
int Explorer::launched_at(const Stream& stream, std::size_t place) const {
  const auto first =
      static_cast<std::size_t>(launched_first(plan(stream.call).spec(), config_.workers));
  const bool whole = stream.launch.size() == static_cast<std::size_t>(actors_of_rank());
  if (!whole || config_.mutant == Mutant::waiters_before_senders || place > first)
    return stream.launch[place];
  return stream.launch[place == first ? 0 : place + 1];
}

void Explorer::launch(int s) {
  Stream& stream = streams_[static_cast<std::size_t>(s)];
  std::size_t limit = stream.launch.size();
  if (config_.resident > 0) limit = std::min(limit, static_cast<std::size_t>(config_.resident));
  if (config_.mutant == Mutant::waiters_before_senders) {
    limit = std::min(limit, stream.launch.size() - 1);
  }
  while (stream.launched < stream.launch.size() && stream.launched - stream.ended < limit) {
    const int actor = launched_at(stream, stream.launched++);
    Runner& r = runner(actor);
    const auto rank = static_cast<std::size_t>(stream.rank);
    const auto call = static_cast<std::size_t>(stream.call);
    const auto& lists = *calls_.lists[call * static_cast<std::size_t>(config_.ranks) + rank];
    r.list = &lists[static_cast<std::size_t>(actor % actors_of_rank())];
    r.at = 0;
    r.admit_peer = 0;
    r.line = 0;
    r.call = stream.call;
    if (judged_)
      monitor_.begin_call(
          actor, r.call, calls_.plans[call],
          config_.mutant != Mutant::send_before_consumption || actor % actors_of_rank() != 0);
    ready_.emplace(r.priority, actor);
  }
}

void Explorer::next_call(int s) {
  Stream& stream = streams_[static_cast<std::size_t>(s)];
  stream.launched = stream.ended = 0;
  if (++stream.call < static_cast<Index>(config_.calls.size())) launch(s);
}

void Explorer::finish(int actor) {
  if (judged_) monitor_.end_call(actor);
  const int s = runner(actor).stream;
  Stream& stream = streams_[static_cast<std::size_t>(s)];
  ++stream.ended;
  stream.ended == stream.launch.size() ? next_call(s) : launch(s);
}

bool Explorer::reached(std::uint32_t have, std::uint32_t want, bool header) const {
  const Mutant mutant = config_.mutant;
  if (mutant == Mutant::equal_for_at_least) return have == want;
  if (mutant == Mutant::unsigned_compare) return have >= want;
  if (mutant == Mutant::stale_epoch && !header) want -= 2;
  if (mutant == Mutant::stale_header && header) want -= 1;
  return comm::epoch_reached(have, want);
}

bool Explorer::line_reached(std::uint32_t have, std::uint32_t want) const {
  if (config_.mutant == Mutant::line_at_least) return comm::epoch_reached(have, want);
  return have == want || (config_.mutant == Mutant::stale_epoch && have == want - 2);
}

bool Explorer::blocks_at_line(int actor, const Step& step) {
  Runner& r = runner(actor);
  for (; r.line < step.rows.size(); ++r.line) {
    Flag& unit = lines_[line_at(rank_of(actor), r.call, step.at + r.line)];
    if (line_reached(unit.value, epoch(r.call))) continue;
    put(actor, unit.waiters);
    return true;
  }
  r.line = 0;
  return false;
}

/// Whether the actor must wait here; if so, it is on the list of whoever will wake it.
bool Explorer::blocks(int actor, const Step& step) {
  Runner& r = runner(actor);
  const int rank = rank_of(actor);
  const std::uint32_t want = epoch(r.call);
  if (step.verb == Verb::wait) {
    Flag& flag = flags_[flag_at(rank, r.call, step.at)];
    if (reached(flag.value, want, false)) return false;
    put(actor, flag.waiters);
    return true;
  }
  if (step.verb == Verb::take_line) return blocks_at_line(actor, step);
  if (step.verb != Verb::admit) return false;
  for (; r.admit_peer < config_.ranks; ++r.admit_peer) {
    if (r.admit_peer == rank) continue;
    if (reached(header(rank, r.admit_peer), want, true)) continue;
    put(actor, header_waiters_[static_cast<std::size_t>(rank)]);
    return true;
  }
  r.admit_peer = 0;
  return false;
}

bool Explorer::stopped() const { return monitor_.num_findings() >= kMaxFindings; }

void Explorer::put(int actor, int& waiters) {
  runner(actor).waits_before = waiters;
  waiters = actor;
}

void Explorer::wake(int& waiters) {
  for (; waiters >= 0; waiters = runner(waiters).waits_before) {
    runner(waiters).blocked = false;
    ready_.emplace(runner(waiters).priority, waiters);
  }
}

void Explorer::count(const Step& step) {
  ++report_.steps;
  if (step.verb == Verb::compute) ++report_.tiles;
  if (step.verb == Verb::signal || step.verb == Verb::signal_header) ++report_.flags;
  if (schedule::is_transfer(step.verb)) ++report_.transfers;
}

void Explorer::advance(int actor) {
  Runner& r = runner(actor);
  while (r.at < r.list->size()) {
    const Step& step = (*r.list)[r.at];
    if (blocks(actor, step)) {
      r.blocked = true;
      return;
    }
    if (judged_) monitor_.on(actor, step);
    count(step);
    ++r.at;
    if (step.verb == Verb::signal) {
      Flag& flag = flags_[flag_at(step.peer, r.call, step.at)];
      flag.value = epoch(r.call);
      wake(flag.waiters);
    }
    for (Index i = 0; i < step.rows.size() && step.verb == Verb::put_line; ++i) {
      Flag& unit = lines_[line_at(step.peer, r.call, step.at + i)];
      unit.value = epoch(r.call);
      wake(unit.waiters);
    }
    if (step.verb == Verb::signal_header) {
      headers_[static_cast<std::size_t>(step.peer * config_.ranks + rank_of(actor))] =
          epoch(r.call);
      wake(header_waiters_[static_cast<std::size_t>(step.peer)]);
    }
    if (stopped()) return;
  }
  finish(actor);
}

std::string Explorer::blocked_text(int actor) const {
  const Runner& r = runner(actor);
  const Step& step = (*r.list)[r.at];
  const int rank = rank_of(actor);
  const std::string who = fmt::format("{} call {} {} step {}", name_of(plan(r.call).spec()),
                                      epoch(r.call), monitor_.role(actor), r.at + 1);
  const std::uint32_t want = epoch(r.call);
  if (step.verb == Verb::admit) {
    return fmt::format("{} waits for the header from rank {}: has {}, wants {}", who, r.admit_peer,
                       header(rank, r.admit_peer), want);
  }
  if (step.verb == Verb::take_line)
    return fmt::format("{} waits for lines of rank {}: {}", who, step.peer, to_string(step));
  std::string next;
  for (std::size_t i = r.at; i < r.list->size(); ++i) {
    if ((*r.list)[i].verb == Verb::wait) continue;
    next = ", before " + to_string((*r.list)[i]);
    break;
  }
  const FlagName name = plan(r.call).flag(rank, step.at);
  return fmt::format("{} waits for {} from rank {}: flag {} has {}, wants {}{}", who, name.text,
                     name.from, step.at, flags_[flag_at(rank, r.call, step.at)].value, want, next);
}

void Explorer::report_deadlock() {
  int blocked = 0;
  int shown = 0;
  int last_rank = -1;
  std::string text;
  for (int actor = 0; actor < static_cast<int>(runners_.size()); ++actor) {
    if (!runner(actor).blocked) continue;
    ++blocked;
    // One of a rank: its others mostly wait for the same.
    if (rank_of(actor) == last_rank || shown == kBlockedShown) continue;
    last_rank = rank_of(actor);
    ++shown;
    text += (shown == 1 ? ": " : "; ") + blocked_text(actor);
  }
  std::size_t places = 0;
  for (const Stream& s : streams_) {
    if (s.call < static_cast<Index>(calls_.plans.size())) places += s.launch.size() - s.launched;
  }
  const std::string queued = places > 0 ? fmt::format(", {} wait for a place", places) : "";
  monitor_.add(FindingKind::deadlock,
               fmt::format("{} actors wait for flags{}{}", blocked, queued, text));
}

CheckReport Explorer::run() {
  for (std::size_t s = 0; s < streams_.size(); ++s) next_call(static_cast<int>(s));
  while (!ready_.empty() && !stopped()) {
    const int actor = ready_.top().second;
    ready_.pop();
    advance(actor);
  }
  const bool over = std::all_of(streams_.begin(), streams_.end(), [&](const Stream& s) {
    return s.call >= static_cast<Index>(calls_.plans.size());
  });
  if (!over && !stopped()) report_deadlock();
  report_.findings = monitor_.findings();
  report_.work = monitor_.work();
  return std::move(report_);
}

}  // namespace tilelace::check
