// SPDX-License-Identifier: Apache-2.0
// A rank's outgoing link. Emulated, a transfer takes as long as a wire of that bandwidth and
// latency would need, without burning a core; otherwise it is a plain copy.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "comm/std_atomics.h"

namespace tilelace::cpu {

class Wire {
 public:
  Wire(double bytes_per_s, double latency_s)
      : ns_per_byte_(bytes_per_s > 0 ? 1e9 / bytes_per_s : 0),
        latency_ns_(static_cast<std::int64_t>(latency_s * 1e9)) {}

  /// Runs `copy`, which moves `bytes`, and returns when the wire would be done with it. Transfers
  /// of one rank share its wire: the next starts when the last byte of this one has left.
  template <class Copy>
  void transfer(std::int64_t bytes, Copy copy) {
    if (ns_per_byte_ == 0 && latency_ns_ == 0) {
      copy();
      return;
    }
    const std::int64_t done = reserve(bytes);
    copy();
    const std::int64_t until = done + latency_ns_;
    const timespec at{until / 1'000'000'000, until % 1'000'000'000};
    while (comm::StdAtomics::now_ns() < until) {
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    }
  }

 private:
  std::int64_t reserve(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::int64_t start = std::max(comm::StdAtomics::now_ns(), free_at_ns_);
    free_at_ns_ = start + static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte_);
    return free_at_ns_;
  }

  double ns_per_byte_;
  std::int64_t latency_ns_;
  std::mutex mutex_;
  std::int64_t free_at_ns_ = 0;
};

}  // namespace tilelace::cpu
