// SPDX-License-Identifier: Apache-2.0
#include "sim/run.h"

#include <algorithm>
#include <queue>
#include <random>

#include "sim/actors.h"
#include "sim/flags.h"

namespace tilelace::sim {
namespace {

class Player {
 public:
  Player(const MachineModel& machine, int local, const Costs& costs,
         const std::vector<std::vector<StepList>>& lists, const Disturbance& disturbance,
         bool with_spans)
      : machine_(machine),
        costs_(costs),
        disturbance_(disturbance),
        with_spans_(with_spans),
        fabric_(machine, static_cast<int>(lists.size()), local),
        flags_(count_signals(lists)),
        random_(disturbance.seed),
        ranks_(lists.size()) {
    for (std::size_t r = 0; r < lists.size(); ++r) add_rank(static_cast<int>(r), lists[r]);
  }

  Outcome play() {
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      Actor& a = actors_[static_cast<std::size_t>(e.actor)];
      now_ = a.now = e.time;
      advance(a, e.actor);
    }
    finish();
    return std::move(out_);
  }

 private:
  double uniform() { return std::generate_canonical<double, 53>(random_); }

  void add_rank(int r, const std::vector<StepList>& lists) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (r == disturbance_.straggler) rank.slow = disturbance_.straggle;
    const double late = disturbance_.start_us > 0 ? disturbance_.start_us * uniform() : 0;
    first_.push_back(static_cast<int>(actors_.size()));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const int lane = static_cast<int>(i) - 1;
      actors_.push_back({r, lane, &lists[i]});
      actors_.back().now = late + (lane < 0 ? costs_.copy_launch_us : costs_.launch_us);
    }
    events_.push({actors_[first_.back()].now, first_.back()});
    while (rank.running < costs_.resident && start_next(r, 0)) {
    }
  }

  /// Starts the rank's next worker, if there is one.
  bool start_next(int r, double now) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const int index = first_[static_cast<std::size_t>(r)] + rank.next;
    const auto i = static_cast<std::size_t>(index);
    if (i >= actors_.size() || actors_[i].rank != r) return false;
    ++rank.next, ++rank.running;
    events_.push({std::max(now, actors_[i].now), index});
    return true;
  }

  void span(SpanKind kind, const Actor& a, int peer, double begin, double end) {
    if (with_spans_ && end > begin) out_.spans.push_back({kind, a.rank, a.lane, peer, begin, end});
  }

  /// Goes on at this time, not before what happens elsewhere until then.
  void resume(Actor& a, int id, double time) {
    a.now = time;
    events_.push({time, id});
  }

  void advance(Actor& a, int id) {
    while (a.at < a.list->size()) {
      const Step& s = (*a.list)[a.at];
      const double before = a.now;
      if (!take(a, id, s)) return;
      ++a.at;
      ++out_.verbs[static_cast<std::size_t>(s.verb)];
      ++out_.steps;
      if (a.now > before && s.verb != Verb::signal_header) return resume(a, id, a.now);
    }
    Rank& rank = ranks_[static_cast<std::size_t>(a.rank)];
    rank.end_us = std::max({rank.end_us, a.now, a.sent});
    ++ended_;
    if (a.lane < 0) return;
    --rank.running;
    start_next(a.rank, a.now);
  }

  /// False: the actor waits and is woken later.
  bool take(Actor& a, int id, const Step& s) {
    switch (s.verb) {
      case Verb::signal: signal(a, s); return true;
      case Verb::signal_header: header(a, s); return true;
      case Verb::wait: return wait(a, id, s);
      case Verb::admit: return admit(a, id);
      case Verb::compute: compute(a, s); return true;
      case Verb::reduce: reduce(a, s); return true;
      case Verb::store:
      case Verb::partial:
      case Verb::park:
      case Verb::unpark:
      case Verb::put_line:
      case Verb::take_line: return true;
      case Verb::stage:
      case Verb::deliver: local_copy(a, s); return true;
      case Verb::store_partial:
      case Verb::store_result: send_tile(a, s); return true;
      case Verb::push:
      case Verb::pull:
      case Verb::send_partial:
      case Verb::fetch_partial:
      case Verb::send_result:
      case Verb::fetch_result: send_chunk(a, s); return true;
    }
    return true;
  }

  void compute(Actor& a, const Step& s) {
    double t = costs_.tile_us(s.rows) * ranks_[static_cast<std::size_t>(a.rank)].slow;
    if (disturbance_.tile_noise > 0) t *= 1 + disturbance_.tile_noise * uniform();
    span(SpanKind::compute, a, s.owner, a.now, a.now + t);
    a.now += t;
    out_.compute_us += t;
  }

  void reduce(Actor& a, const Step& s) {
    const int children = costs_.route.num_children(s.owner, a.rank);
    const double t = children * s.rows * costs_.tile_row_bytes * 1e-3 / costs_.reduce_gbps;
    span(SpanKind::reduce, a, s.owner, a.now, a.now + t);
    a.now += t;
    out_.reduce_us += t;
  }

  void local_copy(Actor& a, const Step& s) {
    const double t = s.rows * costs_.row_bytes * 1e-3 / machine_.links.local_gbps;
    span(SpanKind::copy, a, a.rank, a.now, a.now + t);
    a.now += t;
  }

  void note_wires(const Actor& a) {
    if (!with_spans_) return;
    for (const Fabric::Hold& h : fabric_.last()) {
      out_.spans.push_back({SpanKind::wire, h.wire, a.lane, a.rank, h.begin_us, h.end_us});
    }
  }

  /// Of one worker.
  [[nodiscard]] double store_us(double bytes) const {
    return bytes * 1e-3 / (machine_.links.store_worker_gbps * costs_.multiprocessors);
  }

  /// A worker's tile to a peer leaves while the next product runs, from a buffer that must be free
  /// of the tile before.
  void send_tile(Actor& a, const Step& s) {
    if (s.row != a.row || s.col != a.col) {
      const double free = std::max(a.now, a.sent);
      waited(a, s.peer, a.now, free);
      a.now = free;
      a.row = s.row, a.col = s.col;
    }
    const double bytes = s.rows * costs_.tile_row_bytes;
    const auto p = fabric_.send(a.rank, s.peer, bytes, Mover::worker, now_, a.now);
    a.stored = a.sent = std::max(p.end_us, std::max(a.now, a.sent) + store_us(bytes));
    out_.bytes += bytes;
    note_wires(a);
  }

  void send_chunk(Actor& a, const Step& s) {
    const bool pull =
        s.verb == Verb::pull || s.verb == Verb::fetch_partial || s.verb == Verb::fetch_result;
    const bool worker = a.lane >= 0;
    const bool network = fabric_.remote(a.rank, s.peer);
    const bool second = !worker && fabric_.second_engine(a.rank, s.peer);
    const double bytes = s.rows * costs_.row_bytes;
    const double fixed = network ? machine_.network.message_us : machine_.links.copy_us;
    const bool beside = worker && costs_.spare_senders;
    const double free = second ? a.second_free : beside ? a.sent : 0;
    const double begin = std::max(a.now, free) + (worker && !network ? 0 : fixed);
    const int from = pull ? s.peer : a.rank, to = pull ? a.rank : s.peer;
    const bool to_many = costs_.route.kind == RouteKind::mesh && costs_.route.ranks > 2;
    const Mover mover = worker    ? Mover::worker
                        : pull    ? Mover::copy_pull
                        : to_many ? Mover::copy_mesh
                                  : Mover::copy_push;
    const auto p = fabric_.send(from, to, bytes, mover, now_, begin);
    a.sent = p.end_us + (pull ? fabric_.latency_us(from, to) : 0);
    if (worker) a.stored = a.sent = std::max(a.sent, begin + store_us(bytes));
    if (second) a.second_free = a.sent;
    out_.bytes += bytes;
    note_wires(a);
    span(SpanKind::copy, a, s.peer, a.now, a.sent);
    // A NIC or another engine has it: the role goes on. Its own engine does one copy at a time.
    if (!beside && (!second || pull)) a.now = network && !pull ? begin : a.sent;
  }

  /// When a peer's flag leaves: behind what was sent, and what is sent next goes behind it. A
  /// worker's stores must have been acknowledged: a way there and one back.
  double raised(Actor& a, int peer) {
    const bool engine = a.lane < 0 && !fabric_.remote(a.rank, peer);
    const bool second = engine && fabric_.second_engine(a.rank, peer);
    double& busy = second ? a.second_free : engine ? a.now : a.sent;
    const double flag = fabric_.flag_us(a.rank, peer, engine);
    busy = std::max(a.now, busy) + flag;
    if (second) return busy;
    const double seen = a.stored > 0 ? a.stored + 2 * fabric_.latency_us(a.rank, peer) + flag : 0;
    return std::max({a.now, a.sent, seen});
  }

  void signal(Actor& a, const Step& s) {
    double there = std::max(a.now, a.sent);
    if (s.peer != a.rank) there = raised(a, s.peer) + fabric_.latency_us(a.rank, s.peer);
    auto& flag = flags_.at(s.peer, s.at);
    if (flag.time_us >= 0) return;
    flag.time_us = there;
    for (int w = flag.waiter; w >= 0;) {
      Actor& waiter = actors_[static_cast<std::size_t>(w)];
      const int next = waiter.next_waiter;
      events_.push({std::max(waiter.now, there), w});
      w = next;
    }
    flag.waiter = -1;
  }

  void waited(Actor& a, int peer, double since, double until) {
    if (a.lane >= 0) out_.wait_us += until - since;
    span(SpanKind::wait, a, peer, since, until);
  }

  bool wait(Actor& a, int id, const Step& s) {
    auto& flag = flags_.at(a.rank, s.at);
    if (flag.time_us < 0) {
      a.next_waiter = flag.waiter;
      flag.waiter = id;
      a.since = a.now;
      return false;
    }
    const double since = a.since >= 0 ? a.since : a.now;
    a.since = -1;
    a.now = std::max(a.now, flag.time_us);
    waited(a, -1, since, a.now);
    return true;
  }

  void header(Actor& a, const Step& s) {
    a.now += costs_.header_us;
    Rank& peer = ranks_[static_cast<std::size_t>(s.peer)];
    ++peer.headers;
    peer.headers_us = std::max(peer.headers_us, a.now + fabric_.latency_us(a.rank, s.peer));
    if (!all_headers(peer)) return;
    for (const int w : peer.waiters) {
      events_.push({std::max(actors_[static_cast<std::size_t>(w)].now, peer.headers_us), w});
    }
    peer.waiters.clear();
  }

  [[nodiscard]] bool all_headers(const Rank& r) const {
    return r.headers >= static_cast<int>(ranks_.size()) - 1;
  }

  bool admit(Actor& a, int id) {
    Rank& rank = ranks_[static_cast<std::size_t>(a.rank)];
    if (!all_headers(rank)) {
      rank.waiters.push_back(id);
      a.since = a.now;
      return false;
    }
    const double since = a.since >= 0 ? a.since : a.now;
    a.since = -1;
    a.now = std::max(a.now, rank.headers_us);
    waited(a, -1, since, a.now);
    return true;
  }

  void finish() {
    for (const Rank& r : ranks_) {
      out_.rank_end_us.push_back(r.end_us + costs_.end_us);
      out_.end_us = std::max(out_.end_us, out_.rank_end_us.back());
    }
    for (const Fabric::Wire& w : fabric_.wires()) {
      double& most = w.network ? out_.network_us : out_.wire_us;
      most = std::max(most, w.busy_us);
    }
    if (ended_ < actors_.size()) out_.stuck = stuck_text(actors_);
  }

  const MachineModel& machine_;
  const Costs& costs_;
  const Disturbance& disturbance_;
  bool with_spans_;
  Fabric fabric_;
  Flags flags_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::vector<Actor> actors_;
  std::vector<int> first_;  ///< the copy role of each rank
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Outcome out_;
  double now_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace

Outcome play(const MachineModel& machine, int local, const Costs& costs,
             const std::vector<std::vector<StepList>>& lists, const Disturbance& disturbance,
             bool with_spans) {
  return Player(machine, local, costs, lists, disturbance, with_spans).play();
}

}  // namespace tilelace::sim
