// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace tilelace::gpu_test {

/// Ends the process if it exceeds its time limit, because a call that hangs in the driver cannot be
/// ended in another way.
class Watchdog {
 public:
  Watchdog(const char* program, double seconds)
      : program_(program), seconds_(seconds), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds_), [this] { return done_; }))
      return;
    fmt::print(stderr, "{}: got no end within {:.0f} s (--limit-seconds), expected one\n", program_,
               seconds_);
    std::fflush(nullptr);
    std::_Exit(3);
  }

  const char* program_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tilelace::gpu_test
