// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/measure/timer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cuda/base/cuda_check.h"

namespace tilelace::cuda::measure {
namespace {

constexpr std::size_t kBeyondL2 = 160U << 20;
constexpr double kLoadMs = 40;

}  // namespace

Pool::Pool(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(&data_, bytes), "memory for operands");
}

Pool::~Pool() { cudaFree(data_); }

void* Pool::at(int i, std::size_t size) const {
  const std::size_t padded = (size + 1023) / 1024 * 1024;
  const std::size_t copies =
      std::clamp<std::size_t>((kBeyondL2 + padded - 1) / padded, 1, bytes_ / padded);
  return static_cast<std::byte*>(data_) + static_cast<std::size_t>(i) % copies * padded;
}

double Variant::quantile(std::size_t tenths) const {
  auto s = samples;
  std::sort(s.begin(), s.end());
  return s.at(s.size() * tenths / 10);
}

Timer::Timer(double quick_ms) : quick_ms_(quick_ms) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  check(cudaEventCreate(&begin_), "event");
  check(cudaEventCreate(&end_), "event");
}

Timer::~Timer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

void Timer::capture(Variant& v, double guess_us) const {
  v.calls = std::clamp(static_cast<int>(1000 / guess_us), 4, 32);
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < v.calls; ++i) v.launch(i, stream_);
  check(cudaStreamEndCapture(stream_, &graph), "capture");
  check(cudaGraphInstantiate(&v.graph, graph, 0), "graph");
  check(cudaGraphDestroy(graph), "graph");
  check(cudaGraphUpload(v.graph, stream_), "graph");
}

double Timer::time_us(const Variant& v, double load_ms, double sample_ms) const {
  const double guess = v.quick_us > 0 ? v.quick_us : 100;
  const auto replays = [&](double ms) {
    return std::max(1, static_cast<int>(std::ceil(ms * 1000 / (guess * v.calls))));
  };
  for (int i = replays(load_ms); i > 0; --i) check(cudaGraphLaunch(v.graph, stream_), "replay");
  const int timed = replays(sample_ms);
  check(cudaEventRecord(begin_, stream_), "event");
  for (int i = 0; i < timed; ++i) check(cudaGraphLaunch(v.graph, stream_), "replay");
  check(cudaEventRecord(end_, stream_), "event");
  check(cudaEventSynchronize(end_), "replay");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_, end_), "event");
  return static_cast<double>(ms) * 1000 / timed / v.calls;
}

void Timer::first_look(std::vector<Variant>& all, double guess_us) const {
  std::vector<double> seen(all.size());
  // Long products throttle: their clocks need longer to settle.
  const double look_ms = guess_us > 20 ? 2 * quick_ms_ : quick_ms_;
  for (Variant& v : all) {
    capture(v, guess_us);
    v.quick_us = guess_us;
  }
  for (std::size_t i = 0; i < all.size(); ++i) seen[i] = time_us(all[i], look_ms, look_ms);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].quick_us = seen[i];
  for (std::size_t i = all.size(); i-- > 0;)
    all[i].quick_us = (seen[i] + time_us(all[i], look_ms, look_ms)) / 2;
  std::stable_sort(all.begin(), all.end(),
                   [](const Variant& x, const Variant& y) { return x.quick_us < y.quick_us; });
}

void Timer::sample(std::vector<Variant>& all, int rounds, double sample_ms) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), rng_);
    for (const std::size_t i : order) all[i].samples.push_back(time_us(all[i], kLoadMs, sample_ms));
  }
}

void Timer::keep(std::vector<Variant>& all, std::size_t count) {
  while (all.size() > count) {
    cudaGraphExecDestroy(all.back().graph);
    all.pop_back();
  }
}

}  // namespace tilelace::cuda::measure
