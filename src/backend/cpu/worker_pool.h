// SPDX-License-Identifier: Apache-2.0
// The threads of one rank. They sleep between calls, and each runs one job per call.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tilelace::cpu {

class WorkerPool {
 public:
  /// Starts `threads` threads in addition to the calling one. The last of them asks the scheduler
  /// to run it soon after it wakes.
  explicit WorkerPool(int threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  /// Runs job(0) on the calling thread and job(1) .. job(threads) on the pool's; returns when all
  /// are done. The job must not throw.
  void run(const std::function<void(int)>& job);

 private:
  void serve(int index, bool urgent);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finished_;
  const std::function<void(int)>* job_ = nullptr;
  std::uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tilelace::cpu
