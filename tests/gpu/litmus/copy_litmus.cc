// SPDX-License-Identifier: Apache-2.0
#include "copy_litmus.h"

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/link/copy_engine.h"
#include "backend/cuda/rank/advance.h"
#include "backend/cuda/rank/wait_control.h"
#include "comm/cuda/capabilities.h"
#include "litmus_cases.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;
using schedule::Index;

constexpr double kCopyWaitSeconds = 10;
constexpr std::uint32_t kFirstEpoch = 0xffffff00U;  // even: the first call uses slot 1

struct Size {
  std::int64_t bytes;  ///< a peer
  int chunks;
  double share;  ///< of --rounds
};
constexpr Size kCopySizes[] = {{64 << 10, 1, 0.5}, {4 << 20, 2, 0.05}};

/// The mutant: every push waits for its signal, which then goes first.
struct FlagFirst {
  cuda::GatherCopyVerbs& verbs;
  schedule::GatherTransfer held = {};

  void push(const schedule::GatherTransfer& t) { held = t; }
  void signal(int peer, Index flag) {
    verbs.signal(peer, flag);
    verbs.push(held);
  }
  void signal_header(int peer) { verbs.signal_header(peer); }
  void admit() { verbs.admit(); }
  void wait(Index flag) { verbs.wait(flag); }
  void stage(const schedule::GatherTransfer& t) { verbs.stage(t); }
  void pull(const schedule::GatherTransfer& t) { verbs.pull(t); }
  void deliver(const schedule::GatherTransfer& t) { verbs.deliver(t); }
};

std::size_t align(std::size_t n) { return (n + 4095) / 4096 * 4096; }

class CopyBench {
 public:
  CopyBench(Rank& rank, const Size& size)
      : rank_(rank), control_(rank.device, rank.rank, rank.group, kCopyWaitSeconds) {
    schedule::AgGemm& s = l_.schedule;
    const Index rows = size.bytes / kCopyRowBytes;
    s.route = {RouteKind::mesh, rank.ranks, 1};
    s.split = {rows * rank.ranks, rank.ranks, nullptr};
    s.rank = rank.rank;
    s.chunk_rows = rows / size.chunks;
    const std::size_t flags = align(static_cast<std::size_t>(s.num_flags()) * sizeof(comm::Flag));
    const std::size_t data = align(static_cast<std::size_t>(size.bytes) * s.ranks());
    for (std::size_t slot = 0; slot < 2; ++slot) {
      l_.flags[slot] = slot * (flags + data);
      l_.rows[slot] = l_.flags[slot] + flags;
    }
    memory_ = comm::allocate_device(*rank.group, rank.device, 2 * (flags + data), kMeetSeconds);
    l_.base = memory_->base();
    l_.stride = memory_->stride();
    void* own = nullptr;
    check(cudaMalloc(&own, static_cast<std::size_t>(size.bytes) + 4096), "input and words");
    l_.input = static_cast<std::byte*>(own);
    l_.epoch = reinterpret_cast<comm::Flag*>(l_.input + size.bytes);
    l_.result = reinterpret_cast<LitmusResult*>(l_.input + size.bytes + 1024);
    l_.wait = control_.context();
    engine_ = std::make_unique<cuda::CopyEngine>(rank.device, l_.epoch);
    const int sms = comm::query_capabilities(rank.device).sm_count;
    const int devices = comm::device_count();
    ctas_ = sms / ((rank.ranks + devices - 1) / devices);  // ranks may share a device
    load_kernels();
  }
  ~CopyBench() { cudaFree(l_.input); }
  CopyBench(const CopyBench&) = delete;
  CopyBench& operator=(const CopyBench&) = delete;

  /// One call, into the slot of its parity.
  void enqueue(std::size_t slot, bool flag_first) {
    const cuda::GatherPlace place{l_.base,       l_.stride, l_.flags[slot], l_.rows[slot],
                                  kCopyRowBytes, l_.input,  kCopyRowBytes,  kCopyRowBytes};
    cuda::GatherCopyVerbs verbs(*engine_, l_.schedule, place);
    check(enqueue_copy_fill(l_, rank_.stream), "filling the input");
    check(cuda::enqueue_advance(l_.epoch, rank_.stream), "advancing the epoch");
    engine_->fork(rank_.stream);
    if (flag_first) {
      FlagFirst swapped{verbs};
      run_copy(l_.schedule, swapped);
    } else {
      run_copy(l_.schedule, verbs);
    }
    check(enqueue_copy_consume(l_, ctas_, rank_.stream), "launching the consumers");
    engine_->join(rank_.stream);
  }

  void run(bool graph, bool flag_first, std::uint32_t rounds, LitmusRow& row);

 private:
  /// Before anybody waits: loading may wait for the device.
  void load_kernels() {
    check(prepare_copy_litmus(), "loading the kernels");
    CopyLitmus alone = l_;
    alone.schedule.route.ranks = 1;
    check(cudaMemset(l_.epoch, 0, sizeof *l_.epoch), "the epoch");
    check(cuda::enqueue_advance(l_.epoch, rank_.stream), "advancing the epoch");
    check(enqueue_copy_consume(alone, ctas_, rank_.stream), "launching the consumers");
    control_.finish(rank_.stream, "copy litmus", kMeetSeconds);
  }
  cudaGraphExec_t capture(bool flag_first);

  Rank& rank_;
  cuda::WaitControl control_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  std::unique_ptr<cuda::CopyEngine> engine_;
  CopyLitmus l_;
  int ctas_ = 1;
};

cudaGraphExec_t CopyBench::capture(bool flag_first) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue(1, flag_first);
  enqueue(0, flag_first);
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "the graph");
  check(cudaGraphUpload(executable, rank_.stream), "the graph");
  check(cudaStreamSynchronize(rank_.stream), "the graph");
  return executable;
}

void CopyBench::run(bool graph, bool flag_first, std::uint32_t rounds, LitmusRow& row) {
  check(cudaMemsetAsync(l_.result, 0, sizeof(LitmusResult), rank_.stream), "the result");
  check(enqueue_copy_reset(l_, kFirstEpoch, rank_.stream), "resetting slots");
  control_.finish(rank_.stream, "copy litmus", kMeetSeconds);
  cudaGraphExec_t executable = graph ? capture(flag_first) : nullptr;
  rank_.meet();
  const double start = now_s();
  for (std::uint32_t c = 0; c < rounds; c += 2) {
    if (graph) {
      check(cudaGraphLaunch(executable, rank_.stream), "launching the graph");
    } else {
      enqueue(1, flag_first);
      enqueue(0, flag_first);
    }
  }
  control_.finish(rank_.stream, row.name, kMeetSeconds);
  const double seconds = now_s() - start;
  if (graph) cudaGraphExecDestroy(executable);
  const auto all = gather_result(rank_, l_.result, seconds);
  row.rounds = rounds;
  row.expected_checked =
      static_cast<double>(rank_.ranks) * (rank_.ranks - 1) * rounds * row.bytes / 4;
  for (std::size_t p = 0; p < all.size(); ++p) {
    const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(all[p].at(i)); };
    row.wrong += all[p].at(0);
    row.checked += all[p].at(1);
    row.us = std::max(row.us, all[p].at(2) * 1e6 / rounds);
    if (row.first.empty() && number(0) > 0)
      row.first = fmt::format(
          "rank {}: call {}, from rank {}, CTA {}, word {}: got {:#010x}, expected {:#010x}", p,
          number(3), number(4), number(5), number(6), number(7), number(8));
  }
}

}  // namespace

std::vector<LitmusRow> run_copy_litmus(Rank& rank, const LitmusOptions& options, JsonLines& json) {
  const std::string suffix =
      options.connections > 0 ? fmt::format("/connections-{}", options.connections) : "";
  std::vector<LitmusRow> rows;
  for (const Size& size : kCopySizes) {
    const auto rounds = static_cast<std::uint32_t>(options.rounds * size.share) / 2 * 2 + 2;
    std::unique_ptr<CopyBench> bench;
    for (const bool flag_first : {false, true}) {
      for (const bool graph : {false, true}) {
        const std::string name =
            fmt::format("copy_engine/{}{}", graph ? "graph" : "stream", suffix);
        if (!selected(options, name) || (flag_first && (!graph || size.chunks > 1))) continue;
        if (!bench) bench = std::make_unique<CopyBench>(rank, size);
        LitmusRow row{name, flag_first ? "flag before data" : "", flag_first,
                      static_cast<double>(size.bytes)};
        bench->run(graph, flag_first, flag_first ? rounds / 10 * 2 : rounds, row);
        if (rank.rank == 0) json.write(litmus_record(row, rank.ranks, options.connections));
        rows.push_back(row);
      }
    }
    rank.meet();
  }
  return rows;
}

}  // namespace tilelace::gpu_test
