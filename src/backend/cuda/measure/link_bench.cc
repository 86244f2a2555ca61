// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/measure/link_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "backend/cuda/base/cuda_check.h"

namespace tilelace::cuda::measure {
namespace {

constexpr double kWaitSeconds = 10;
constexpr double kGraphSeconds = 0.012;  // what a graph should take, about
constexpr double kSampleSeconds = 0.03;
constexpr double kWarmSeconds = 0.04;
constexpr int kSamples = 5;
constexpr int kHostSamples = 11;
constexpr std::size_t kFlagBytes = 1 << 20;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.at(v.size() / 2);
}

/// Sample by sample the slowest rank, then the median.
double slowest(const Rank& rank, const std::vector<double>& mine) {
  std::vector<double> most = mine;
  for (const auto& part : rank.gather(mine))
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], part.at(i));
  return median(most);
}

}  // namespace

LinkBench::LinkBench(Rank& rank, std::size_t largest_mib)
    : rank_(rank), control_(rank.device, rank.rank, rank.group, kWaitSeconds) {
  const std::size_t slot = largest_mib << 20;
  const std::size_t bytes = kFlagBytes + slot * static_cast<std::size_t>(rank.ranks + 1);
  memory_ = comm::allocate_device(*rank.group, rank.device, bytes, kMeetSeconds);
  void* own = nullptr;
  check(cudaMalloc(&own, 4096), "own memory");
  check(cudaMemset(own, 0, 4096), "own memory");
  own_ = static_cast<std::byte*>(own);
  links_ = {memory_->base(), memory_->stride(), kFlagBytes, kFlagBytes + slot, slot, slot,
            rank.rank,       rank.ranks,        false};
  meeting_ = {memory_->base(),    memory_->stride(), reinterpret_cast<comm::Flag*>(own_),
              control_.context(), rank.rank,         rank.ranks};
  check(cudaEventCreate(&begin_), "an event");
  check(cudaEventCreate(&end_), "an event");
  check(prepare_links(), "loading the kernels");
  check(enqueue_source(links_, rank.stream), "the source");
  finish("filling the source");
  rank.meet();
}

LinkBench::~LinkBench() {
  cudaEventDestroy(end_);
  cudaEventDestroy(begin_);
  cudaFree(own_);
}

void LinkBench::round(const Way& way, Links& l) {
  l.pull = way.pull;
  if (way.mover != Mover::copy_engine) {
    check(enqueue_move(way.mover, l, way.ctas, rank_.stream), way.what);
    return;
  }
  const auto at = [&l](int rank) { return l.base + static_cast<std::size_t>(rank) * l.stride; };
  for (int i = 1; i < l.ranks; ++i) {
    const int peer = (l.rank + i) % l.ranks;
    const int to = way.pull ? l.rank : peer;
    const int from = way.pull ? peer : l.rank;
    check(cudaMemcpyAsync(at(to) + l.slots + static_cast<std::size_t>(from) * l.slot_bytes,
                          at(from) + l.source, l.bytes, cudaMemcpyDeviceToDevice, rank_.stream),
          way.what);
  }
}

double LinkBench::verify(const Way& way, Links& l) {
  std::array<std::uint32_t, kCompareBlocks> counts{};
  auto* const wrong = reinterpret_cast<std::uint32_t*>(own_ + 64);
  const bool sum = way.mover == Mover::bulk_add || way.mover == Mover::threads_add;
  check(cudaMemsetAsync(memory_->local() + l.slots, sum ? 0 : 0xff,
                        l.slot_bytes * static_cast<std::size_t>(l.ranks), rank_.stream),
        "poisoning the slots");
  check(cudaMemsetAsync(wrong, 0, sizeof counts, rank_.stream), "the counts");
  finish("poisoning the slots");
  rank_.meet();
  round(way, l);
  finish(way.what);
  rank_.meet();
  check(enqueue_compare(l, wrong, rank_.stream), "comparing");
  finish("comparing");
  check(cudaMemcpy(counts.data(), wrong, sizeof counts, cudaMemcpyDeviceToHost), "the counts");
  const double found = std::accumulate(counts.begin(), counts.end(), 0.0);
  double all = 0;
  for (const auto& part : rank_.gather({found})) all += part.at(0);
  return all;
}

double LinkBench::time_graph(const Way& way, Links& l) {
  const double guess = static_cast<double>(l.bytes) * (l.ranks - 1) / 300e9 + 10e-6;
  const int rounds = std::clamp(static_cast<int>(kGraphSeconds / guess), 4, 500);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < rounds; ++i) {
    if (way.timing == Timing::calls) check(enqueue_barrier(meeting_, rank_.stream), "a barrier");
    round(way, l);
  }
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "the graph");
  const auto seconds_of = [&](int replays) {
    rank_.meet();
    check(enqueue_barrier(meeting_, rank_.stream), "a barrier");
    check(cudaEventRecord(begin_, rank_.stream), "an event");
    for (int i = 0; i < replays; ++i)
      check(cudaGraphLaunch(executable, rank_.stream), "launching the graph");
    check(cudaEventRecord(end_, rank_.stream), "an event");
    finish(way.what);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "an event");
    return rank_.max(static_cast<double>(ms) * 1e-3) / replays;
  };
  const double once = seconds_of(1);  // the same number on every rank, and so are the counts
  const auto replays_for = [&](double s) {
    return std::max(1, static_cast<int>(std::ceil(s / once)));
  };
  seconds_of(replays_for(kWarmSeconds));
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i)
    samples.push_back(seconds_of(replays_for(kSampleSeconds)) / rounds);
  cudaGraphExecDestroy(executable);
  return median(samples);
}

double LinkBench::time_host(const Way& way, Links& l) {
  std::vector<double> samples;
  for (int i = 0; i < kHostSamples; ++i) {
    rank_.meet();
    const double start = now_s();
    round(way, l);
    check(cudaStreamSynchronize(rank_.stream), way.what);  // copies only: nothing waits in them
    samples.push_back(now_s() - start);
  }
  return slowest(rank_, samples);
}

Measured LinkBench::run(const Way& way) {
  Links l = links_;
  l.bytes = way.mib << 20;
  Measured m;
  m.wrong_words = verify(way, l);
  m.verified = m.wrong_words == 0;
  const double seconds = way.timing == Timing::host ? time_host(way, l) : time_graph(way, l);
  m.us = seconds * 1e6;
  m.gb_per_s = static_cast<double>(l.bytes) * (l.ranks - 1) / seconds * 1e-9;
  return m;
}

double LinkBench::flag_copy_us() {
  Links l = links_;
  l.bytes = sizeof(comm::Flag);
  const Way way{"flag copies", Mover::copy_engine, false, Timing::queue, 0, 0};
  return time_graph(way, l) * 1e6 / (l.ranks - 1);
}

double LinkBench::round_trip_us() {
  constexpr std::uint32_t kTrips = 5000;
  std::vector<double> samples;
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    rank_.meet();
    check(enqueue_barrier(meeting_, rank_.stream), "a barrier");
    check(cudaEventRecord(begin_, rank_.stream), "an event");
    check(enqueue_round_trips(meeting_, i * kTrips, kTrips, rank_.stream), "round trips");
    check(cudaEventRecord(end_, rank_.stream), "an event");
    finish("round trips");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "an event");
    samples.push_back(static_cast<double>(ms) * 1e3 / kTrips);
  }
  return slowest(rank_, samples);
}

}  // namespace tilelace::cuda::measure
