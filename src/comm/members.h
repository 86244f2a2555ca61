// SPDX-License-Identifier: Apache-2.0
// The checks of arguments that thread groups and process groups have in common.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group.h"
#include "core/check.h"

namespace tilelace::comm {

/// "rank 3" or "ranks 1, 3".
inline std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

inline void require_ranks(int ranks) {
  require(ranks >= 1 && ranks <= kMaxRanks, "communicator: ranks: got {}, expected 1 to {}", ranks,
          kMaxRanks);
}

inline void require_rank(int rank, int ranks) {
  require(rank >= 0 && rank < ranks, "communicator: rank: got {} with {} ranks, expected 0 to {}",
          rank, ranks, ranks - 1);
}

inline void require_payload(std::string_view mine) {
  require(mine.size() <= kMaxPayload, "all_gather: payload: got {} bytes, expected at most {}",
          mine.size(), kMaxPayload);
}

/// Error text for ranks in different calls, where rank a is at step_a and rank b is at step_b.
inline std::string different_calls(int a, std::string_view step_a, int b, std::string_view step_b) {
  return fmt::format(
      "ranks are in different calls (rank {} at the step {}, rank {} at {}): all ranks must "
      "make the same calls in the same order",
      a, step_a, b, step_b);
}

/// Checks the list of a new group's members; returns the index of `rank` in it. Error: usage.
inline int require_members(std::span<const int> members, int rank, int ranks) {
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (const int m : members) {
    require(m >= 0 && m < ranks, "subgroup: members: got rank {}, expected 0 to {}", m, ranks - 1);
    require(!seen[static_cast<std::size_t>(m)],
            "subgroup: members: got rank {} twice, expected each rank once", m);
    seen[static_cast<std::size_t>(m)] = true;
  }
  const auto own = std::find(members.begin(), members.end(), rank);
  require(own != members.end(),
          "subgroup: members: this rank, {}, is not among them: only the ranks of a subgroup may "
          "make it",
          rank);
  return static_cast<int>(own - members.begin());
}

/// Requires equal bytes on all ranks. Error: usage, naming the first rank that differs from rank 0.
inline void require_same_bytes(const std::vector<std::uint64_t>& bytes) {
  for (std::size_t r = 1; r < bytes.size(); ++r)
    require(bytes[r] == bytes[0],
            "allocate: rank {} passed {} bytes, rank 0 passed {}: pass the same size on every rank",
            r, bytes[r], bytes[0]);
}

}  // namespace tilelace::comm
