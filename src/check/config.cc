// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <ostream>

#include "check/explore.h"

namespace tilelace::check {

std::string to_string(const CheckConfig& c) {
  std::string text = fmt::format("ranks {} workers {} resident {} seed {} first_epoch {}", c.ranks,
                                 c.workers, c.resident, c.seed, c.first_epoch);
  if (c.idle != 0) text += fmt::format(" idle {}", c.idle);
  if (c.mutant != Mutant::none) text += fmt::format(" mutant {}", name_of(c.mutant));
  if (c.lost >= 0) text += fmt::format(" without step {} of rank 0's copy role", c.lost);
  for (const CallSpec& call : c.calls) text += " | " + to_string(call);
  return text;
}

std::ostream& operator<<(std::ostream& out, const CheckConfig& c) { return out << to_string(c); }

std::optional<std::string> legal(const CheckConfig& c) {
  if (c.ranks < 1 || c.workers < 1) return "ranks and workers must be at least 1";
  if (c.calls.empty()) return "calls must list at least one call";
  for (const CallSpec& call : c.calls) {
    if (call.exchange && call.exchange->workers > c.workers)
      return "a collective must not have more workers than a rank has";
    if (auto reason = legal(call, c.ranks)) return reason;
    if (c.resident != 0 && c.resident < min_resident(call, c.workers)) {
      return fmt::format(
          "resident must be 0 (all actors) or at least {}: with fewer actors at a time, {} may "
          "never end",
          min_resident(call, c.workers), name_of(call));
    }
  }
  return std::nullopt;
}

}  // namespace tilelace::check
