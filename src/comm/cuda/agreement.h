// SPDX-License-Identifier: Apache-2.0
// Rounds in which every rank does its part. Then either all continue, or all fail with the same
// error.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/deadline.h"
#include "comm/group.h"

namespace tilelace::comm {

class Agreement {
 public:
  /// Error: usage, unless timeout_s > 0.
  Agreement(Group& group, std::string_view op, double timeout_s)
      : group_(group), op_(op), deadline_(op, timeout_s) {}

  /// Runs `work` on every rank and returns the results by rank. If `work` throws on some ranks, all
  /// ranks throw the error of the lowest rank that failed. Collective, bounded. Errors: those of
  /// `work`, peer, timeout.
  std::vector<std::string> round(const std::function<std::string()>& work) const;

  /// Seconds left of the timeout.
  [[nodiscard]] double left_s() const { return deadline_.slice_ms(1'000'000'000) / 1e3; }

 private:
  Group& group_;
  std::string op_;
  Deadline deadline_;
};

}  // namespace tilelace::comm
