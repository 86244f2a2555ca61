// SPDX-License-Identifier: Apache-2.0
#include "time_limit.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace tilelace::cli {

TimeLimit::TimeLimit(std::string what, double seconds, int exit_code)
    : what_(std::move(what)), exit_code_(exit_code), thread_([this, seconds] { watch(seconds); }) {}

TimeLimit::~TimeLimit() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TimeLimit::step(const std::string& step) {
  const std::scoped_lock lock(mutex_);
  step_ = step;
}

void TimeLimit::watch(double seconds) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(seconds);
  if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
  fmt::print(stderr, "tilelace: {}: {} has not ended after {:.3g} s\n", what_, step_, seconds);
  std::fflush(nullptr);
  std::_Exit(exit_code_);
}

}  // namespace tilelace::cli
