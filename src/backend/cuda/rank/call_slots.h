// SPDX-License-Identifier: Apache-2.0
// Which slot a rank's calls take, eager or captured in CUDA graphs. Nothing of CUDA.
#pragma once
#include <optional>

namespace tilelace::cuda {

/// Call c uses slot c mod 2, and c is counted on the device: the host does not see replays. A
/// captured call keeps the slot that it was captured with. So where the device's count may be on
/// the wrong side, an "align" comes first, a kernel that makes one call without rows if it is:
/// before the first call of every capture, and before eager calls once a replay may have changed
/// the count. All ranks make the same calls, captures and replays: they align together.
class CallSlots {
 public:
  struct Place {
    unsigned slot = 0;
    /// The number of calls before this one, mod 2, that an align makes; none: it is that already.
    std::optional<unsigned> align;
  };

  /// Of the call that is enqueued next. `capture`: the one that it is part of (an id that no other
  /// has), 0: none.
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
  /// A replay of one with an even number of calls leaves an even count behind.
  [[nodiscard]] bool odd_graphs() const { return odd_ || (captured_ & 1U) != 0; }

  unsigned eager_ = 0;     ///< its parity is that of the device's count unless a replay came
  unsigned captured_ = 0;  ///< since the last capture began
  unsigned long long capture_ = 0;
  bool graphs_ = false, odd_ = false;
};

}  // namespace tilelace::cuda
