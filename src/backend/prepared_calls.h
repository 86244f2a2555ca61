// SPDX-License-Identifier: Apache-2.0
// Agreement on the host: checks that every rank prepares, or makes, the same calls. A rank that
// cannot make its call tells the others why instead.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "core/check.h"

namespace tilelace {

/// The first line in which two lists of calls differ: its text in a and in b. Error texts show only
/// this line, since a model's whole list would hide the difference.
inline std::pair<std::string_view, std::string_view> first_difference(std::string_view a,
                                                                      std::string_view b) {
  while (true) {
    const auto line_a = a.substr(0, a.find('\n'));
    const auto line_b = b.substr(0, b.find('\n'));
    if (line_a != line_b || line_a.size() == a.size() || line_b.size() == b.size()) {
      return {line_a, line_b};
    }
    a.remove_prefix(line_a.size() + 1);
    b.remove_prefix(line_b.size() + 1);
  }
}

/// Gathers each rank's text, of any length, in pieces. A piece begins with '+' if another follows,
/// else with '.'.
inline std::vector<std::string> gather_texts(comm::Group& group, std::string_view mine,
                                             double timeout_s) {
  std::vector<std::string> all(static_cast<std::size_t>(group.ranks()));
  for (bool more = true; more;) {
    const auto piece = mine.substr(0, comm::kMaxPayload - 1);
    mine.remove_prefix(piece.size());
    const auto parts =
        group.all_gather(fmt::format("{}{}", mine.empty() ? '.' : '+', piece), timeout_s);
    more = false;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      more = more || parts[p].starts_with('+');
      all[p].append(parts[p], std::min<std::size_t>(1, parts[p].size()));
    }
  }
  return all;
}

/// Requires that `mine` is equal on every rank. If `refusal` is not empty, this rank only tells its
/// peers why it refuses. `name`: "prepare", or the op that is called. Collective. Errors: usage (on
/// every rank that did not refuse), peer, timeout.
inline void agree_on_calls(comm::Group& group, std::string_view name, std::string_view mine,
                           std::string_view refusal, double timeout_s) {
  const std::string_view verb = name == "prepare" ? name : "call";
  const std::string own = refusal.empty() ? std::string(mine) : fmt::format("!{}", refusal);
  const auto all = gather_texts(group, own, timeout_s);
  for (int p = 0; p < group.ranks(); ++p) {
    const std::string& theirs = all[static_cast<std::size_t>(p)];
    if (!refusal.empty() || theirs == own) continue;
    require(theirs.empty() || theirs[0] != '!', "{}: rank {} refused to {}: {}", name, p, verb,
            theirs.empty() ? "" : theirs.substr(1));
    const int low = std::min(p, group.rank());
    const int high = std::max(p, group.rank());
    const std::string& of_low = all[static_cast<std::size_t>(low)];
    const std::string& of_high = all[static_cast<std::size_t>(high)];
    const auto calls = [](const std::string& list) { return std::ranges::count(list, '\n'); };
    require(calls(of_low) == calls(of_high),
            "{}: rank {} lists {} calls, rank {} lists {}: list the same calls on every rank", name,
            low, calls(of_low), high, calls(of_high));
    const auto [a, b] = first_difference(of_low, of_high);
    raise(ErrorKind::usage, "{}: rank {} {}s [{}], rank {} {}s [{}]: all ranks must do the same",
          name, low, verb, a, high, verb, b);
  }
}

}  // namespace tilelace
