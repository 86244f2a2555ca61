// SPDX-License-Identifier: Apache-2.0
// The role loops of all three ops over plain arrays, with an atomics policy that may lack its
// release or its acquire. x86 computes the right numbers all the same; ThreadSanitizer sees the
// race. Usage: memory_order ordered|relaxed_signal|relaxed_wait. Exit 1: a wait expired or a sum is
// wrong.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/signal.h"
#include "comm/std_atomics.h"
#include "schedule/gather_tiles.h"
#include "schedule/reduce_tiles.h"

namespace {

using namespace tilelace;
using schedule::Index;

struct RelaxedSignal : comm::StdAtomics {
  template <class Word>
  static void store_release(Word* word, Word value) {
    std::atomic_ref<Word>(*word).store(value, std::memory_order_relaxed);
  }
};

struct RelaxedWait : comm::StdAtomics {
  template <class Word>
  static Word load_acquire(const Word* word) {
    return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(std::memory_order_relaxed);
  }
};

constexpr int kRanks = 3;
constexpr int kWorkers = 2;
constexpr Index kRows = 24;
constexpr Index kSlotCells = 512;

/// One number a row stands for the row's data; a shard's rows hold rank + 1.
struct Rank {
  std::vector<comm::Flag> flags = std::vector<comm::Flag>(4096);
  std::vector<comm::Header> headers = std::vector<comm::Header>(kRanks);
  std::vector<std::vector<int>> slots =
      std::vector<std::vector<int>>(2, std::vector<int>(kSlotCells));
};

struct Group {
  std::vector<Rank> ranks = std::vector<Rank>(kRanks);
  comm::AbortWord abort = 0;
};

template <class Atomics>
struct Verbs {
  Group& group;
  int rank;
  std::uint32_t epoch;
  bool failed = false;
  int sum = 0;

  std::vector<int>& slot(int r) { return group.ranks[r].slots[epoch & 1U]; }
  comm::Flag* flag(int r, Index i) { return &group.ranks[r].flags[(epoch & 1U) * 2048 + i]; }

  void signal_header(int peer) {
    comm::signal<Atomics>(&group.ranks[peer].headers[rank], epoch, 7U);
  }
  void signal(int peer, Index i) { comm::signal<Atomics>(flag(peer, i), epoch); }
  void wait(Index i) {
    comm::Flag seen = 0;
    failed |= comm::wait<Atomics>(flag(rank, i), epoch, &group.abort, deadline(), seen) !=
              comm::WaitStatus::reached;
  }
  void admit() {
    for (int p = 0; p < kRanks; ++p) {
      comm::Header seen = 0;
      if (p == rank) continue;
      failed |= comm::wait<Atomics>(&group.ranks[rank].headers[p], epoch, &group.abort, deadline(),
                                    seen) != comm::WaitStatus::reached;
    }
  }
  static std::int64_t deadline() { return Atomics::now_ns() + 20'000'000'000; }

  // all-gather: cells are rows.
  void push(const schedule::GatherTransfer& t) {
    for (Index r = t.rows.begin; r < t.rows.end; ++r) slot(t.peer)[r] = t.source + 1;
  }
  void compute(const schedule::GatherTile& t) {
    sum = 0;
    if (t.source == rank) return;
    for (Index r = t.rows.begin; r < t.rows.end; ++r) sum += slot(rank)[r];
  }
  void store(const schedule::GatherTile& t) {
    if (t.source != rank) failed |= sum != t.rows.size() * (t.source + 1);
  }
  void stage(const schedule::GatherTransfer&) {}
  void pull(const schedule::GatherTransfer&) {}
  void deliver(const schedule::GatherTransfer&) {}

  // reduce: outgoing rows, then incoming rows of each child, then result rows.
  static Index incoming(int child, Index row) { return kRows * (1 + child) + row; }
  static Index result(Index row) { return kRows * (1 + kRanks) + row; }
  void compute(const schedule::ReduceTile&) { sum = rank + 1; }
  void partial(const schedule::ReduceTile& t) {
    for (Index r = t.rows.begin; r < t.rows.end; ++r) slot(rank)[r] = sum;
  }
  void send_partial(const schedule::ReduceTransfer& t) {
    for (Index r = t.rows.begin; r < t.rows.end; ++r) {
      slot(t.peer)[incoming(rank, r)] = slot(rank)[r];
    }
  }
  void reduce(const schedule::ReduceTile& t) {
    for (int p = 0; p < kRanks; ++p) {
      if (p != rank) sum += slot(rank)[incoming(p, t.rows.begin)];
    }
  }
  void store(const schedule::ReduceTile& t) {
    failed |= sum != kRanks * (kRanks + 1) / 2;
    for (Index r = t.rows.begin; r < t.rows.end; ++r) slot(rank)[result(r)] = sum;
  }
  void send_result(const schedule::ReduceTransfer& t) {
    for (Index r = t.rows.begin; r < t.rows.end; ++r)
      slot(t.peer)[result(r)] = slot(rank)[result(r)];
  }
  void deliver(const schedule::ReduceTransfer& t) {
    for (Index r = t.rows.begin; r < t.rows.end; ++r) {
      failed |= slot(rank)[result(r)] != kRanks * (kRanks + 1) / 2;
    }
  }
  void store_partial(const schedule::ReduceTile&, int) {}
  void store_result(const schedule::ReduceTile&, int) {}
  void park(const schedule::ReduceTile&) {}
  void unpark(const schedule::ReduceTile&) {}
  void fetch_partial(const schedule::ReduceTransfer&) {}
  void fetch_result(const schedule::ReduceTransfer&) {}
};

template <class Schedule>
Schedule make(int rank) {
  Schedule s;
  s.route = {RouteKind::mesh, kRanks, 1};
  s.split = {kRows, kRanks, nullptr};
  s.rank = rank;
  s.workers = kWorkers;
  s.tile_m = 2;
  s.chunk_rows = 3;
  return s;
}

/// One call of one rank: its actors as threads, joined at the end as a stream would.
template <class Atomics, class Schedule>
bool call(Group& group, const Schedule& s, std::uint32_t epoch) {
  std::vector<Verbs<Atomics>> verbs(kWorkers + 1, Verbs<Atomics>{group, s.rank, epoch});
  std::vector<std::thread> actors;
  actors.emplace_back([&] { schedule::run_copy(s, verbs[kWorkers]); });
  for (int w = 0; w < kWorkers; ++w) {
    actors.emplace_back([&, w] { schedule::run_compute(s, w, verbs[w]); });
  }
  for (auto& a : actors) a.join();
  bool good = true;
  for (const auto& v : verbs) good &= !v.failed;
  return good;
}

template <class Atomics>
bool run() {
  Group group;
  std::vector<int> good(kRanks, 1);
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] {
      for (std::uint32_t epoch = 1; epoch <= 30 && good[r] == 1; ++epoch) {
        auto reduce = make<schedule::GemmReduce>(r);
        reduce.all_reduce = epoch % 3 == 0;
        const auto of = [&](const auto& tiles) { return call<Atomics>(group, tiles, epoch); };
        const bool ok = epoch % 3 == 1 ? schedule::with_tiles<kRanks>(make<schedule::AgGemm>(r), of)
                                       : schedule::with_tiles<kRanks>(reduce, of);
        good[r] = ok ? 1 : 0;
      }
    });
  }
  for (auto& t : ranks) t.join();
  return good == std::vector<int>(kRanks, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  bool good = false;
  if (mode == "ordered") good = run<comm::StdAtomics>();
  if (mode == "relaxed_signal") good = run<RelaxedSignal>();
  if (mode == "relaxed_wait") good = run<RelaxedWait>();
  std::printf("%s: %s\n", argc == 2 ? argv[1] : "usage", good ? "sums are right" : "failed");
  return good ? 0 : 1;
}
