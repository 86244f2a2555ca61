// SPDX-License-Identifier: Apache-2.0
// What a rank's calls stand at when none of them ends any more: an error names one wait, this names
// what is there and what is not.
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

/// One communicator's calls on this rank.
struct Watched {
  std::string name;
  const cuda::RankCalls* calls = nullptr;
  /// What the call is that is the n-th to be counted; empty: nobody knows.
  std::function<std::string(comm::Flag)> text = {};
};

/// A thread beside a rank's own.
class StallWatch {
 public:
  explicit StallWatch(const Rank& rank);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

  /// While it lives somebody waits for calls to end: prints once, to standard error, where they
  /// stand if none was counted for `after_s`.
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
  /// The number of calls that are counted, -1: it cannot be read.
  std::int64_t counted(const Watched& w);
  void print(const Watched& w);
  /// From device memory, beside all that runs. False: not within a second.
  bool read(void* to, const void* from, std::size_t bytes);

  int rank_, ranks_, device_;
  cudaStream_t stream_ = nullptr;
  std::byte* page_ = nullptr;  // host memory
  std::mutex mutex_;           // what follows
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  double after_s_ = 0;
  std::vector<std::int64_t> before_;
  double since_ = 0;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tilelace::gpu_test
