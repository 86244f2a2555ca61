// SPDX-License-Identifier: Apache-2.0
// A rank's emulated wire: a transfer takes the time given by bandwidth and latency. The calling
// thread copies, then sleeps for the rest of this time.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "comm/deadline.h"
#include "comm/signal.h"
#include "comm/std_atomics.h"

namespace tilelace::cpu {

class Wire {
 public:
  Wire(double bytes_per_s, double latency_s)
      : ns_per_byte_(bytes_per_s > 0 ? std::min(1e9 / bytes_per_s, kLongestNs) : 0),
        latency_ns_(static_cast<std::int64_t>(latency_s * 1e9)) {}

  /// Runs `copy`, which moves `bytes`, and returns when the wire would have finished. Transfers of
  /// one rank share its wire: each starts once the previous one's last byte has left. Returns
  /// early if the abort word is set or the deadline has passed.
  template <class Copy>
  comm::WaitStatus transfer(std::int64_t bytes, Copy copy, const comm::AbortWord* abort,
                            std::int64_t deadline_ns) {
    const std::int64_t done = reserve(bytes) + latency_ns_;
    copy();
    for (;;) {
      const std::int64_t now = comm::StdAtomics::now_ns();
      if (now >= done) return comm::WaitStatus::reached;
      if (comm::StdAtomics::load_acquire(abort) != 0) return comm::WaitStatus::aborted;
      if (now >= deadline_ns) return comm::WaitStatus::expired;
      sleep_until(std::min({done, deadline_ns, now + comm::kSliceMs * 1'000'000}));
    }
  }

 private:
  /// Longer than any wait. Transfer times are capped at this value, to fit their integer type.
  static constexpr double kLongestNs = 1e15;

  static void sleep_until(std::int64_t ns) {
    const timespec at{ns / 1'000'000'000, ns % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  }

  std::int64_t reserve(std::int64_t bytes) {
    const double ns = std::min(static_cast<double>(bytes) * ns_per_byte_, kLongestNs);
    const std::scoped_lock lock(mutex_);
    const std::int64_t start = std::max(comm::StdAtomics::now_ns(), free_at_ns_);
    free_at_ns_ = start + static_cast<std::int64_t>(ns);
    return free_at_ns_;
  }

  double ns_per_byte_;
  std::int64_t latency_ns_;
  std::mutex mutex_;
  std::int64_t free_at_ns_ = 0;
};

}  // namespace tilelace::cpu
