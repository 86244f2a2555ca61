// SPDX-License-Identifier: Apache-2.0
// prepare's agreement: every rank prepares the same calls, or says why it cannot.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "comm/group.h"
#include "core/check.h"

namespace tilelace {

/// `mine` is what must be equal on every rank; with a refusal this rank only tells its peers why.
/// Collective. Errors: usage (on every rank that did not refuse), peer, timeout.
inline void agree_on_calls(comm::Group& group, std::string_view mine, std::string_view refusal,
                           double timeout_s) {
  const std::string own = refusal.empty() ? std::string(mine) : fmt::format("!{}", refusal);
  const auto all = group.all_gather(own, timeout_s);
  for (int p = 0; p < group.ranks(); ++p) {
    const std::string& theirs = all[static_cast<std::size_t>(p)];
    if (!refusal.empty() || theirs == own) continue;
    require(theirs.empty() || theirs[0] != '!',
            "prepare: rank {} refused ({}), expected every rank to prepare", p,
            theirs.empty() ? "" : theirs.substr(1));
    const int low = std::min(p, group.rank());
    const int high = std::max(p, group.rank());
    raise(ErrorKind::usage,
          "prepare: rank {} prepares [{}], rank {} prepares [{}], expected the same on every rank",
          low, all[static_cast<std::size_t>(low)], high, all[static_cast<std::size_t>(high)]);
  }
}

}  // namespace tilelace
