// SPDX-License-Identifier: Apache-2.0
// Says which slot each call of a rank uses, eager or captured in a CUDA graph. Needs no CUDA.
#pragma once
#include <optional>

namespace tilelace::cuda {

/// Call c uses slot c mod 2. The device counts calls, since the host does not see replays of
/// graphs. A captured call keeps its slot. Where the device's count may have the wrong parity, an
/// "align" is enqueued first: a kernel that makes a call without rows if the parity is wrong. So
/// aligns are enqueued before the first call of every capture and, after any capture, before each
/// eager call whose parity a replay may have changed. All ranks make the same calls, captures and
/// replays, so their aligns do the same.
class CallSlots {
 public:
  struct Place {
    unsigned slot = 0;
    /// The parity of the device's count that an align must ensure before the call; none: no align.
    std::optional<unsigned> align;
  };

  /// The place of the call that is enqueued next. `capture`: id of the capture that the call is
  /// part of; 0: none.
  Place next(unsigned long long capture) {
    if (capture == 0) {
      const unsigned before = eager_ & 1U;
      const bool unsure = graphs_ && (before != 0 || odd_graphs());
      return {++eager_ & 1U, unsure ? std::optional(before) : std::nullopt};
    }
    if (capture == capture_) return {++captured_ & 1U, std::nullopt};
    odd_ = odd_graphs();
    capture_ = capture;
    captured_ = 1;
    graphs_ = true;
    return {1, 0U};
  }

  /// Whether any call was captured.
  [[nodiscard]] bool graphs() const { return graphs_; }

 private:
  /// Whether a replay may leave the count odd. (The align at a graph's start makes the count even.)
  [[nodiscard]] bool odd_graphs() const { return odd_ || (captured_ & 1U) != 0; }

  unsigned eager_ = 0;     ///< eager calls; odd if the device's count is odd (unless a graph ran)
  unsigned captured_ = 0;  ///< number of calls in the latest capture
  unsigned long long capture_ = 0;
  bool graphs_ = false, odd_ = false;
};

}  // namespace tilelace::cuda
