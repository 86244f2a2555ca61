// SPDX-License-Identifier: Apache-2.0
#include "timer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/cuda_check.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr double kGraphUs = 1000;  // what a graph should take, about
constexpr Lengths kLook{12, 6};
/// After a pause a device at its power limit is some 3 % faster for a while.
constexpr double kWarmMs = 150;

double part_of(std::vector<double> v, std::size_t tenths) {
  std::sort(v.begin(), v.end());
  return v.at(std::min(v.size() * tenths / 10, v.size() - 1));
}

}  // namespace

double Variant::median() const { return part_of(samples, 5); }
double Variant::spread() const { return part_of(samples, 9) / part_of(samples, 1); }

Timer::Timer(Rank& rank, cuda::NcclGroup& nccl) : rank_(rank), nccl_(nccl) {
  check(cudaEventCreate(&begin_), "an event");
  check(cudaEventCreate(&end_), "an event");
}

Timer::~Timer() {
  cudaEventDestroy(end_);
  cudaEventDestroy(begin_);
}

void Timer::finish(const Variant& v) {
  if (v.finish)
    v.finish();
  else
    nccl_.finish(rank_.stream, v.name, kFinishSeconds);
}

void Timer::enqueue(const Variant& v) {
  if (!v.eager) {
    check(cudaGraphLaunch(v.graph.get(), rank_.stream), "a replay");
    return;
  }
  for (int i = 0; i < v.calls; ++i) v.launch(i);
}

void Timer::capture(Variant& v) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeRelaxed), "capture");
  for (int i = 0; i < v.calls; ++i) v.launch(i);
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "the graph");
  v.graph.reset(executable);
  check(cudaGraphUpload(executable, rank_.stream), "the graph");
  finish(v);
}

void Timer::prepare(Variant& v, double guess_us) {
  // First outside of a graph: NCCL connects ranks, kernels are loaded. Nobody captures, which may
  // stop a device, while a peer's collective runs.
  rank_.meet();
  for (const int i : {0, 1}) v.launch(i);
  finish(v);
  rank_.meet();
  v.calls = std::clamp(static_cast<int>(kGraphUs / guess_us), 4, 32) / 2 * 2;
  if (!v.eager) capture(v);
  v.quick_us = std::max(1.0, rank_.max(run(v, 1, 1)));
}

double Timer::run(const Variant& v, int load, int timed) {
  rank_.meet();
  for (int i = 0; i < load; ++i) enqueue(v);
  check(cudaEventRecord(begin_, rank_.stream), "an event");
  for (int i = 0; i < timed; ++i) enqueue(v);
  check(cudaEventRecord(end_, rank_.stream), "an event");
  finish(v);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "an event");
  return static_cast<double>(ms) * 1000 / timed / v.calls;
}

double Timer::sample(const Variant& v, const Lengths& lengths) {
  const auto replays = [&](double ms) {
    return std::max(1, static_cast<int>(std::ceil(ms * 1000 / (v.quick_us * v.calls))));
  };
  return rank_.max(run(v, replays(lengths.load_ms), replays(lengths.sample_ms)));
}

void Timer::warm(const Variant& v) { sample(v, {kWarmMs, kLook.sample_ms}); }

void Timer::rounds(std::vector<Variant>& variants, int count, const Lengths& lengths) {
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < count; ++round) {
    std::shuffle(order.begin(), order.end(), order_);
    for (const std::size_t i : order) variants[i].samples.push_back(sample(variants[i], lengths));
  }
}

void Timer::select(std::vector<Variant>& variants, std::size_t finalists, int rounds_each,
                   const Lengths& lengths) {
  if (!variants.empty()) warm(variants.front());
  std::vector<double> seen;
  for (const Variant& v : variants) seen.push_back(sample(v, kLook));
  for (std::size_t i = variants.size(); i-- > 0;)
    variants[i].quick_us = (seen[i] + sample(variants[i], kLook)) / 2;
  std::stable_sort(variants.begin(), variants.end(),
                   [](const Variant& x, const Variant& y) { return x.quick_us < y.quick_us; });
  while (variants.size() > finalists) variants.pop_back();
  if (variants.size() < 2 || rounds_each == 0) return;
  rounds(variants, rounds_each, lengths);
  std::stable_sort(variants.begin(), variants.end(),
                   [](const Variant& x, const Variant& y) { return x.median() < y.median(); });
}

void Timer::replay(const Variant& v) {
  rank_.meet();
  enqueue(v);
  finish(v);
  rank_.meet();
}

}  // namespace tilelace::gpu_test
