// SPDX-License-Identifier: Apache-2.0
#include "check/explore.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <queue>
#include <random>

#include "check/monitor.h"
#include "check/record.h"
#include "comm/signal.h"
#include "core/check.h"

namespace tilelace::check {

namespace {

constexpr std::size_t kMaxFindings = 8;
constexpr int kBlockedShown = 4;

/// Actors that begin and end calls together: all of a rank, unless a mutant parts them.
struct Stream {
  int rank = 0;
  std::vector<int> launch;  ///< actors in launch order
  Index call = -1;
  std::size_t launched = 0;
  std::size_t ended = 0;
};

struct Runner {
  const StepList* list = nullptr;
  std::size_t at = 0;
  int admit_peer = 0;
  Index call = -1;
  int stream = 0;
  std::uint32_t priority = 0;
  bool blocked = false;
};

class Explorer {
 public:
  explicit Explorer(const CheckConfig& config);
  CheckReport run();

 private:
  using Plan = std::shared_ptr<const CallPlan>;

  void make_plans();
  void make_streams();
  void make_priorities();
  void launch(int stream);
  void next_call(int stream);
  void advance(int actor);
  bool blocks(int actor, const Step& step);
  void finish(int actor);
  void wake(std::vector<int>& waiters);
  void count(const Step& step);
  void report_deadlock();
  [[nodiscard]] std::string blocked_text(int actor) const;
  [[nodiscard]] int launched_at(const Stream& stream, std::size_t place) const;

  [[nodiscard]] bool reached(std::uint32_t have, std::uint32_t want, bool header) const;
  [[nodiscard]] std::vector<int>& waiters(int rank, Index call, Index flag);
  [[nodiscard]] bool stopped() const { return monitor_.num_findings() >= kMaxFindings; }
  [[nodiscard]] int actors_of_rank() const { return config_.workers + 1; }
  [[nodiscard]] int rank_of(int actor) const { return actor / actors_of_rank(); }
  [[nodiscard]] const CallPlan& plan(Index call) const {
    return *plans_[static_cast<std::size_t>(call)];
  }
  Runner& runner(int actor) { return runners_[static_cast<std::size_t>(actor)]; }
  [[nodiscard]] const Runner& runner(int actor) const {
    return runners_[static_cast<std::size_t>(actor)];
  }

  const CheckConfig& config_;
  Monitor monitor_;
  CheckReport report_;
  std::vector<Plan> plans_;  ///< by call; equal calls share one
  std::vector<std::shared_ptr<const std::vector<StepList>>> lists_;  ///< by call and rank
  std::vector<Stream> streams_;
  std::vector<Runner> runners_;
  std::priority_queue<std::pair<std::uint32_t, int>> ready_;
  std::vector<std::vector<int>> flag_waiters_;    ///< by rank, flag slot: flag index
  std::vector<std::vector<int>> header_waiters_;  ///< by rank
  std::vector<std::size_t> flag_base_;
};

Monitor::Setup setup_of(const CheckConfig& c) {
  Monitor::Setup setup;
  setup.ranks = c.ranks;
  setup.workers = c.workers;
  setup.first_epoch = c.first_epoch;
  setup.slots = c.mutant == Mutant::one_slot ? 1 : 2;
  setup.flag_slots = c.mutant == Mutant::one_flag_set ? 1 : 2;
  setup.max_findings = kMaxFindings;
  return setup;
}

Explorer::Explorer(const CheckConfig& config) : config_(config), monitor_(setup_of(config)) {
  make_plans();
  runners_.resize(static_cast<std::size_t>(config.ranks * actors_of_rank()));
  make_streams();
  make_priorities();
  Index flags = 1;
  for (const Plan& p : plans_) flags = std::max(flags, p->num_flags());
  flag_base_.push_back(static_cast<std::size_t>(flags));
  flag_waiters_.resize(static_cast<std::size_t>(2 * config.ranks * flags));
  header_waiters_.resize(static_cast<std::size_t>(config.ranks));
}

void Explorer::make_plans() {
  for (std::size_t c = 0; c < config_.calls.size(); ++c) {
    const auto same = std::find(config_.calls.begin(), config_.calls.begin() + c, config_.calls[c]);
    const auto first = static_cast<std::size_t>(same - config_.calls.begin());
    plans_.push_back(first < c ? plans_[first]
                               : std::make_shared<const CallPlan>(config_.calls[c], config_.ranks,
                                                                  config_.workers));
    for (int rank = 0; rank < config_.ranks; ++rank) {
      if (first < c) {
        lists_.push_back(lists_[first * static_cast<std::size_t>(config_.ranks) +
                                static_cast<std::size_t>(rank)]);
        continue;
      }
      auto lists = record(*plans_[c], rank);
      report_.mutated |= mutate(config_.mutant, *plans_[c], rank, lists);
      if (rank == 0 && config_.lost >= 0 && config_.lost < std::ssize(lists[0])) {
        lists[0].erase(lists[0].begin() + config_.lost);
        report_.mutated = true;
      }
      lists_.push_back(std::make_shared<const std::vector<StepList>>(std::move(lists)));
    }
  }
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
    for (const int actor : streams_[s].launch) runner(actor).stream = static_cast<int>(s);
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

std::vector<int>& Explorer::waiters(int rank, Index call, Index flag) {
  const std::size_t slot = monitor_.epoch(call) % 2;
  const std::size_t area =
      static_cast<std::size_t>(rank) * 2 + (config_.mutant == Mutant::one_flag_set ? 0 : slot);
  return flag_waiters_[area * flag_base_.front() + static_cast<std::size_t>(flag)];
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
    const auto& lists = *lists_[call * static_cast<std::size_t>(config_.ranks) + rank];
    r.list = &lists[static_cast<std::size_t>(actor % actors_of_rank())];
    r.at = 0;
    r.admit_peer = 0;
    r.call = stream.call;
    monitor_.begin_call(
        actor, r.call, plans_[call],
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
  monitor_.end_call(actor);
  const int s = runner(actor).stream;
  Stream& stream = streams_[static_cast<std::size_t>(s)];
  ++stream.ended;
  stream.ended == stream.launch.size() ? next_call(s) : launch(s);
}

bool Explorer::reached(std::uint32_t have, std::uint32_t want, bool header) const {
  switch (config_.mutant) {
    case Mutant::equal_for_at_least: return have == want;
    case Mutant::unsigned_compare: return have >= want;
    case Mutant::stale_epoch: return comm::epoch_reached(have, header ? want : want - 2);
    case Mutant::stale_header: return comm::epoch_reached(have, header ? want - 1 : want);
    default: return comm::epoch_reached(have, want);
  }
}

/// Whether the actor must wait here; if so, it is on the list of whoever will wake it.
bool Explorer::blocks(int actor, const Step& step) {
  Runner& r = runner(actor);
  const int rank = rank_of(actor);
  const std::uint32_t want = monitor_.epoch(r.call);
  if (step.verb == Verb::wait) {
    if (reached(monitor_.flag(rank, r.call, step.at), want, false)) return false;
    waiters(rank, r.call, step.at).push_back(actor);
    return true;
  }
  if (step.verb != Verb::admit) return false;
  for (; r.admit_peer < config_.ranks; ++r.admit_peer) {
    if (r.admit_peer == rank) continue;
    if (reached(monitor_.header(rank, r.admit_peer), want, true)) continue;
    header_waiters_[static_cast<std::size_t>(rank)].push_back(actor);
    return true;
  }
  r.admit_peer = 0;
  return false;
}

void Explorer::wake(std::vector<int>& waiters) {
  for (const int actor : waiters) {
    runner(actor).blocked = false;
    ready_.emplace(runner(actor).priority, actor);
  }
  waiters.clear();
}

void Explorer::count(const Step& step) {
  ++report_.steps;
  switch (step.verb) {
    case Verb::compute: ++report_.tiles; break;
    case Verb::signal:
    case Verb::signal_header: ++report_.flags; break;
    case Verb::push:
    case Verb::pull:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::store_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::store_result: ++report_.transfers; break;
    default: break;
  }
}

void Explorer::advance(int actor) {
  Runner& r = runner(actor);
  while (r.at < r.list->size()) {
    const Step& step = (*r.list)[r.at];
    if (blocks(actor, step)) {
      r.blocked = true;
      return;
    }
    monitor_.on(actor, step);
    count(step);
    ++r.at;
    if (step.verb == Verb::signal) wake(waiters(step.peer, r.call, step.at));
    if (step.verb == Verb::signal_header) {
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
  const std::string who = fmt::format("{} call {} {} step {}", op_name(plan(r.call).spec().op),
                                      monitor_.epoch(r.call), monitor_.role(actor), r.at + 1);
  const std::uint32_t want = monitor_.epoch(r.call);
  if (step.verb == Verb::admit) {
    return fmt::format("{} waits for the header from rank {}: has {}, wants {}", who, r.admit_peer,
                       monitor_.header(rank, r.admit_peer), want);
  }
  std::string next;
  for (std::size_t i = r.at; i < r.list->size(); ++i) {
    if ((*r.list)[i].verb == Verb::wait) continue;
    next = ", before " + to_string((*r.list)[i]);
    break;
  }
  const FlagName name = plan(r.call).flag(rank, step.at);
  return fmt::format("{} waits for {} from rank {}: flag {} has {}, wants {}{}", who, name.text,
                     name.from, step.at, monitor_.flag(rank, r.call, step.at), want, next);
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
    if (s.call < static_cast<Index>(plans_.size())) places += s.launch.size() - s.launched;
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
    return s.call >= static_cast<Index>(plans_.size());
  });
  if (!over && !stopped()) report_deadlock();
  report_.findings = monitor_.findings();
  return std::move(report_);
}

}  // namespace

CheckReport check(const CheckConfig& config) {
  const auto reason = legal(config);
  require(!reason, "check: {}, got {}", reason.value_or(""), to_string(config));
  return Explorer(config).run();
}

}  // namespace tilelace::check
