// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "comm/std_atomics.h"
#include "core/check.h"

namespace tilelace::comm {

/// The longest time that a wait sleeps before it checks the abort word again.
constexpr int kSliceMs = 20;

/// The end of a bounded wait, on the monotonic clock.
class Deadline {
 public:
  /// Error: usage, unless seconds > 0.
  Deadline(std::string_view op, double seconds) {
    require(seconds > 0, "{}: timeout: got {} s, expected more than 0", op, seconds);
    begin_ns_ = StdAtomics::now_ns();
    end_ns_ = begin_ns_ + static_cast<std::int64_t>(std::min(seconds, 1e9) * 1e9);
  }
  /// Seconds since construction, for error texts.
  [[nodiscard]] double waited_s() const {
    return static_cast<double>(StdAtomics::now_ns() - begin_ns_) * 1e-9;
  }
  [[nodiscard]] bool passed() const { return StdAtomics::now_ns() >= end_ns_; }
  /// How many milliseconds to sleep. This is the time left, clamped to the range 1..`cap`.
  [[nodiscard]] int slice_ms(int cap = kSliceMs) const {
    const std::int64_t left = (end_ns_ - StdAtomics::now_ns()) / 1'000'000;
    return static_cast<int>(std::clamp<std::int64_t>(left, 1, cap));
  }

 private:
  std::int64_t begin_ns_;
  std::int64_t end_ns_;
};

}  // namespace tilelace::comm
