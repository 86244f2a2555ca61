// SPDX-License-Identifier: Apache-2.0
// Reports the state of a rank's calls when they stop making progress. An error names only
// one wait. The report has the headers (which announce calls) and first flags of both slots.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/rank/rank_calls.h"
#include "harness.h"

namespace tilelace::gpu_test {

/// The calls of one communicator on this rank.
struct Watched {
  std::string name;
  const cuda::RankCalls* calls = nullptr;
  /// Describes the call that follows n counted calls (CallCounter::done); empty: no text.
  std::function<std::string(comm::Flag)> text = {};
};

/// A thread that watches a rank.
class StallWatch {
 public:
  explicit StallWatch(const Rank& rank);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

  /// Lives while a thread waits for calls to end. If CallCounter::done does not change for
  /// `after_s`, the state of the calls is printed once to standard error.
  class Scope {
   public:
    Scope(StallWatch& watch, std::vector<Watched> watched, double after_s) : watch_(watch) {
      watch.set(std::move(watched), after_s);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { watch_.set({}, 0); }

   private:
    StallWatch& watch_;
  };

 private:
  void set(std::vector<Watched> watched, double after_s);
  void look();
  /// CallCounter::done, or -1 if the counter cannot be read.
  std::int64_t counted(const Watched& w);
  void print(const Watched& w);
  /// Reads device memory while kernels run. Returns false if that takes over a second.
  bool read(void* to, const void* from, std::size_t bytes);

  int rank_, ranks_, device_;
  cudaStream_t stream_ = nullptr;
  std::byte* page_ = nullptr;  // page of host memory
  std::mutex mutex_;           // guards the members that follow
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  double after_s_ = 0;
  std::vector<std::int64_t> before_;
  double since_ = 0;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tilelace::gpu_test
