// SPDX-License-Identifier: Apache-2.0
#include "ops/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "backend/cuda/base/cuda_check.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kFlags = 64;  // of a slot: the first ones
constexpr std::size_t kPage = 4096;

const cuda::CallCounter* counter_of(const cuda::RankCalls& calls) {
  const auto* next = reinterpret_cast<const std::byte*>(calls.next(0));
  return reinterpret_cast<const cuda::CallCounter*>(next - offsetof(cuda::CallCounter, next));
}

}  // namespace

StallWatch::StallWatch(const Rank& rank)
    : rank_(rank.rank), ranks_(rank.ranks), device_(rank.device) {
  int least = 0;
  int greatest = 0;
  cuda::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
  cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
              "a stream to watch by");
  void* page = nullptr;
  cuda::check(cudaMallocHost(&page, kPage), "memory to watch by");
  page_ = static_cast<std::byte*>(page);
  thread_ = std::thread([this] { look(); });
}

StallWatch::~StallWatch() {
  {
    const std::scoped_lock lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (cudaStreamQuery(stream_) != cudaSuccess) return;  // the copy may still come
  cudaFreeHost(page_);
  cudaStreamDestroy(stream_);
}

bool StallWatch::read(void* to, const void* from, std::size_t bytes) {
  bytes = std::min(bytes, kPage);
  if (cudaStreamQuery(stream_) != cudaSuccess ||
      cudaMemcpyAsync(page_, from, bytes, cudaMemcpyDeviceToHost, stream_) != cudaSuccess)
    return false;
  const double end = now_s() + 1;
  while (cudaStreamQuery(stream_) == cudaErrorNotReady) {
    if (now_s() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::memcpy(to, page_, bytes);
  return true;
}

std::int64_t StallWatch::counted(const Watched& w) {
  cuda::CallCounter now;
  return read(&now, counter_of(*w.calls), sizeof now) ? now.done : -1;
}

void StallWatch::set(std::vector<Watched> watched, double after_s) {
  const std::scoped_lock lock(mutex_);
  watched_ = std::move(watched);
  after_s_ = after_s;
  before_.clear();
}

void StallWatch::look() {
  cudaSetDevice(device_);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; })) {
    std::vector<std::int64_t> now;
    for (const Watched& w : watched_) now.push_back(counted(w));
    if (now != before_) since_ = now_s();
    before_ = std::move(now);
    if (watched_.empty() || now_s() < since_ + after_s_) continue;
    for (const Watched& w : watched_) print(w);
    watched_.clear();
  }
}

void StallWatch::print(const Watched& w) {
  const cuda::RankCalls& calls = *w.calls;
  cuda::CallCounter counter;
  comm::Flag granted = 0;
  if (!read(&counter, counter_of(calls), sizeof counter) ||
      !read(&granted, calls.granted(), sizeof granted)) {
    fmt::print(stderr, "STALL rank {} {}: copies to the host do not run\n", rank_, w.name);
    return;
  }
  std::string text = fmt::format(
      "STALL rank {} {}: {} calls counted, {} CTAs of the next one began ({}); next {} {}, granted "
      "{}\n",
      rank_, w.name, counter.done, counter.passed, w.text ? w.text(counter.done) : "",
      counter.next[0], counter.next[1], granted);
  const std::byte* const local = calls.memory().local();
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::vector<comm::Header> headers(2 * ranks);
  if (read(headers.data(), local, headers.size() * sizeof(comm::Header)))
    for (std::size_t i = 0; i < headers.size(); ++i)
      text +=
          fmt::format("{} {}:{:08x}", i % ranks == 0 ? fmt::format("  headers {}", i / ranks) : "",
                      comm::header_epoch(headers[i]), comm::header_hash(headers[i]));
  text += "\n";
  for (unsigned slot = 0; slot < 2; ++slot) {
    std::vector<comm::Flag> flags(std::min(kFlags, calls.flags()));
    if (read(flags.data(), local + calls.flags_at(slot), flags.size() * sizeof(comm::Flag)))
      text += fmt::format("  flags {}: {}\n", slot, fmt::join(flags, " "));
  }
  fmt::print(stderr, "{}", text);
}

}  // namespace tilelace::gpu_test
