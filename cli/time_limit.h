// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tilelace::cli {

/// Ends the process with an error when what is done under it takes longer: a call into a driver
/// may never return, and no other thread can take it back.
class TimeLimit {
 public:
  TimeLimit(std::string what, double seconds, int exit_code);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  /// What is done from now on, for the error.
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
