// SPDX-License-Identifier: Apache-2.0
#include "check/sweep.h"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "check/dice.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::check {

namespace {

constexpr std::size_t kMaxFailures = 5;
constexpr std::int64_t kProgressEvery = 256;
/// Of a sweep, one is of collectives.
constexpr std::int64_t kExchangeEvery = 8;
/// Each may need a gigabyte.
constexpr unsigned kMostThreads = 4;
/// Keeps a configuration under a millisecond: tiles and chunks of all ranks.
constexpr Index kMaxParts = 1200;

Index random_m(Dice& dice, int ranks, int tile) {
  static constexpr std::array<Index, 7> kPrimes = {2, 5, 7, 13, 31, 61, 97};
  if (dice.one_in(2)) return dice.between(0, 20 * ranks);
  switch (dice.below(8)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return ranks - 1;
    case 3: return tile - 1;
    case 4: return tile;
    case 5: return tile + 1;
    case 6: return static_cast<Index>(ranks) * dice.between(1, 20) + 1;
    default: return dice.any(kPrimes);
  }
}

std::vector<Index> random_rows(Dice& dice, Index m, int ranks) {
  std::vector<Index> borders = {0, m};
  for (int r = 1; r < ranks; ++r) borders.push_back(dice.between(0, static_cast<int>(m)));
  std::sort(borders.begin(), borders.end());
  std::vector<Index> rows;
  for (std::size_t i = 1; i < borders.size(); ++i) rows.push_back(borders[i] - borders[i - 1]);
  return rows;
}

/// A walk of kernels.
void random_walk(Dice& dice, CallSpec& s, int ranks) {
  WalkSpec& w = s.walk;
  s.straddle = s.unfused = s.copied = false;
  s.cols = dice.between(1, 6);
  w.along_cols = dice.one_in(2);
  if (dice.one_in(2)) w.wide = dice.between(1, 3), w.deep = dice.between(1, 3);
  if (row_of(s.op).scatters() || dice.one_in(3))
    s.transport = Transport::store, s.route = RouteKind::mesh;
  if (row_of(s.op).scatters()) {
    w.pairs = ranks % 2 == 0 && dice.one_in(2);
    w.together = !w.pairs && dice.one_in(2);
    return;
  }
  w.whole = row_of(s.transport).by_workers() && dice.one_in(2);
  w.across = w.whole && dice.one_in(2);
  if (!w.whole) w.apart = dice.between(0, ranks);
  for (int i = 1; i < ranks && w.apart == 0; ++i)
    w.joins.push_back(dice.between(0, static_cast<int>(s.m * s.cols / s.tile_m)));
}

CallSpec random_call(Dice& dice, int ranks) {
  for (;;) {
    CallSpec s;
    s.op = op_table()[static_cast<std::size_t>(dice.below(static_cast<int>(op_table().size())))].op;
    s.tile_m = dice.between(1, 16);
    s.m = random_m(dice, ranks, s.tile_m);
    s.cols = dice.between(1, 4);
    s.chunk_rows = dice.between(1, 24);
    s.raster_group = dice.between(1, 3);
    s.route = dice.any(std::array{RouteKind::mesh, RouteKind::ring, RouteKind::two_level});
    if (s.route == RouteKind::two_level) s.local = dice.any(std::array{1, 2, 3, 4, 5, 8});
    s.transport = dice.any(std::array{Transport::push, Transport::pull, Transport::store});
    s.straddle = dice.one_in(3);
    s.blocks = row_of(s.op).shares ? dice.between(1, 4) : 1;
    s.block_grain = s.blocks > 1 ? dice.any(std::array{1, 2, 5, 16}) : 1;
    s.deliver = row_of(s.op).gathers && dice.one_in(2);
    if (!row_of(s.op).shares && dice.one_in(3)) s.rows = random_rows(dice, s.m, ranks);
    s.unfused = row_of(s.op).sums && dice.one_in(2);
    if (s.unfused) s.cols = s.blocks = 1;
    s.copied = s.unfused && row_of(s.op).scatters() && dice.one_in(2);
    if (row_of(s.op).shares && dice.one_in(6)) {
      s.transport = Transport::multimem;
      s.unfused = false;
      s.blocks = 1;
      s.direct = dice.one_in(2);
      s.shots = s.direct || !dice.one_in(2) ? 2 : 1;
    }
    if (row_of(s.op).shares && !row_of(s.transport).needs_multicast() && dice.one_in(3)) {
      s.transport = Transport::store;
      s.route = RouteKind::mesh;
      s.unfused = s.straddle = s.direct = false;
      s.shots = 1;
      s.cols = dice.between(1, 9);
      s.lag = dice.between(1, 20);
      s.by_columns = dice.one_in(2);
      if (s.by_columns) s.cols *= ranks, s.blocks = 1;
    }
    if (!row_of(s.op).shares && dice.one_in(2)) random_walk(dice, s, ranks);
    const Index parts = (s.m / s.tile_m + ranks) * s.cols + s.m / s.chunk_rows + ranks;
    if (!legal(s, ranks) && parts * ranks <= kMaxParts) return s;
  }
}

}  // namespace

CheckConfig random_config(std::uint64_t seed, std::int64_t i) {
  Dice dice(seed, i);
  CheckConfig c;
  c.ranks = dice.any(std::array{1, 2, 3, 4, 5, 8});
  c.workers = dice.between(1, 6);
  const CallSpec first = random_call(dice, c.ranks);
  const bool mixed = dice.one_in(2);
  c.calls.push_back(first);
  for (int call = 1; call < 3; ++call) {
    if (mixed && dice.one_in(4))
      c.calls.push_back(random_collective(dice, c.ranks, c.workers));
    else
      c.calls.push_back(mixed ? random_call(dice, c.ranks) : first);
  }
  int least = 0;
  for (const CallSpec& call : c.calls) least = std::max(least, min_resident(call, c.workers));
  if (dice.one_in(2)) c.resident = dice.between(least, c.workers + 1);
  if (!dice.one_in(4)) c.seed = static_cast<std::uint64_t>(dice.between(1, 1 << 20));
  if (dice.one_in(8)) c.first_epoch = 0xFFFFFFFFU - static_cast<std::uint32_t>(dice.below(3));
  return c;
}

namespace {

std::vector<CallSpec> routed(CallSpec s, int ranks) {
  std::vector<CallSpec> all;
  for (const RouteKind route : {RouteKind::mesh, RouteKind::ring, RouteKind::two_level}) {
    for (int local = 1; local <= ranks; ++local) {
      const bool nodes = route == RouteKind::two_level;
      if (nodes ? local == 1 || local == ranks || ranks % local != 0 : local > 1) continue;
      s.route = route;
      s.local = nodes ? local : 1;
      all.push_back(s);
    }
  }
  return all;
}

/// Three calls of it, with all actors of a rank at a time and with as few as it needs.
void add_runs(std::vector<CheckConfig>& all, const CallSpec& spec, int ranks, int workers) {
  if (legal(spec, ranks)) return;
  const int least = min_resident(spec, workers);
  for (const std::uint64_t seed : {0U, 1U}) {
    all.push_back({{spec, spec, spec}, ranks, workers, 0, seed, 1, Mutant::none});
    if (least > workers) continue;
    all.push_back({{spec, spec, spec}, ranks, workers, least, seed, 1, Mutant::none});
  }
}

/// As kernels walk it.
void add_walks(std::vector<CheckConfig>& all, const CallSpec& shape, int ranks, int workers) {
  CallSpec walked = shape;
  const Index rows = schedule::ceil_div(shape.m, shape.tile_m);
  if (row_of(shape.op).gathers) {
    walked.walk.apart = 1;
    add_runs(all, walked, ranks, workers);
    walked.walk.apart = 0;
    for (int i = 1; i < ranks; ++i)
      walked.walk.joins.push_back(static_cast<int>(rows * shape.cols * i / (2 * ranks * ranks)));
    add_runs(all, walked, ranks, workers);
  }
  walked.walk = {};
  walked.transport = Transport::store;
  walked.walk.whole = row_of(shape.op).gathers;
  walked.walk.together = row_of(shape.op).scatters();
  add_runs(all, walked, ranks, workers);
  if (row_of(shape.op).scatters()) walked.walk = {.pairs = true};
  walked.walk.across = walked.walk.whole;
  add_runs(all, walked, ranks, workers);
}

}  // namespace

std::vector<CheckConfig> variants(const CallSpec& shape, int ranks, int workers) {
  std::vector<CheckConfig> all;
  CallSpec sum = shape;
  sum.cols = sum.blocks = 1;
  sum.unfused = true;
  for (const Transport transport : {Transport::pull, Transport::store}) {
    sum.transport = transport;
    add_runs(all, sum, ranks, workers);
  }
  sum.transport = Transport::pull;
  sum.copied = true;
  add_runs(all, sum, ranks, workers);
  CallSpec switched = shape;
  switched.transport = Transport::multimem;
  switched.blocks = 1;
  switched.shots = 2;
  for (const bool direct : {false, true}) {
    switched.direct = direct;
    add_runs(all, switched, ranks, workers);
  }
  switched.direct = false;
  switched.shots = 1;
  add_runs(all, switched, ranks, workers);
  CallSpec shared = shape;
  shared.transport = Transport::store;
  shared.lag = 2;
  add_runs(all, shared, ranks, workers);
  CallSpec columns = shared;
  columns.by_columns = true;
  columns.blocks = 1;
  columns.cols *= ranks;
  add_runs(all, columns, ranks, workers);
  if (!row_of(shape.op).shares) add_walks(all, shape, ranks, workers);
  for (CallSpec spec : routed(shape, ranks)) {
    for (const Transport transport : {Transport::push, Transport::pull, Transport::store}) {
      for (const bool straddle : {false, true}) {
        spec.transport = transport;
        spec.straddle = straddle;
        add_runs(all, spec, ranks, workers);
      }
    }
  }
  return all;
}

namespace {

void add(SweepSummary& sum, const CheckConfig& config, CheckReport& report) {
  ++sum.configurations;
  const auto differs = [&](const CallSpec& call) { return call != config.calls.front(); };
  sum.mixed += std::any_of(config.calls.begin(), config.calls.end(), differs) ? 1 : 0;
  sum.steps += report.steps;
  sum.tiles += report.tiles;
  sum.transfers += report.transfers;
  sum.flags += report.flags;
  if (!report.findings.empty() && sum.failed++ < static_cast<std::int64_t>(kMaxFailures))
    sum.failures.push_back({config, std::move(report.findings)});
}

/// Hands out stretches of neighbours with the same calls.
class Stretches {
 public:
  Stretches(const std::vector<CheckConfig>& all, const SweepProgress& progress)
      : all_(all), progress_(progress) {}
  /// Empty: there are no more, or somebody failed.
  std::pair<std::size_t, std::size_t> next() {
    const std::lock_guard lock(mutex_);
    const std::size_t begin = given_;
    while (given_ < all_.size() && failure_ == nullptr && all_[given_].calls == all_[begin].calls)
      ++given_;
    return {begin, given_};
  }
  void done() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (progress_) progress_(done_);
  }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  const std::vector<CheckConfig>& all_;
  const SweepProgress& progress_;
  std::mutex mutex_;
  std::size_t given_ = 0;
  std::int64_t done_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

SweepSummary check_all(const std::vector<CheckConfig>& all, const SweepProgress& progress) {
  Stretches stretches(all, progress);
  std::vector<CheckReport> reports(all.size());
  const auto work = [&] {
    try {
      for (auto [i, end] = stretches.next(); i < end; std::tie(i, end) = stretches.next()) {
        Checker checker;
        for (; i < end; ++i) {
          reports[i] = checker.check(all[i]);
          stretches.done();
        }
      }
    } catch (...) {
      stretches.fail(std::current_exception());
    }
  };
  std::vector<std::jthread> others;
  const unsigned cores = std::min(std::thread::hardware_concurrency(), kMostThreads);
  for (unsigned i = 1; i < cores; ++i) others.emplace_back(work);
  work();
  others.clear();
  stretches.rethrow();
  SweepSummary sum;
  for (std::size_t i = 0; i < all.size(); ++i) add(sum, all[i], reports[i]);
  return sum;
}

SweepSummary sweep(std::int64_t count, std::uint64_t seed, const SweepProgress& progress) {
  SweepSummary sum;
  for (std::int64_t i = 0; i < count; ++i) {
    const CheckConfig config =
        i % kExchangeEvery == 0 ? random_exchange(seed, i) : random_config(seed, i);
    CheckReport report = check(config);
    add(sum, config, report);
    if (progress && (i + 1) % kProgressEvery == 0) progress(i + 1);
  }
  return sum;
}

}  // namespace tilelace::check
