// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tilelace::cli {

/// Ends the process with an error if this object lives longer than the limit. It is for calls into
/// a driver, which may never return and which no other thread can cancel.
class TimeLimit {
 public:
  TimeLimit(std::string what, double seconds, int exit_code);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  /// Names the step that begins now, for the error text.
  void step(const std::string& step);

 private:
  void watch(double seconds);

  std::string what_, step_ = "the beginning";
  int exit_code_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace tilelace::cli
