// SPDX-License-Identifier: Apache-2.0
// The kinds of links between ranks, one row each. Each pair of ranks has one link, which is the
// first row that fits the pair when the ranks join.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tilelace/choices.h"

namespace tilelace::comm {

enum class LinkKind : std::uint8_t { wire, shared_memory, peer_memory, nccl };

/// What is known about two ranks when they join. Both ranks know the same.
struct RankPair {
  int low = 0, high = 1;
  Device device = {};
  bool metered = false;  ///< whether a rate or latency is emulated
  bool reached = true;   ///< whether each can map the other's memory
};

struct LinkRow {
  LinkKind kind;
  std::string_view name;
  bool (*joins)(const RankPair&);
  /// Whether the peer's memory is mapped here, so that workers and kernels can store into it. If
  /// not, only the link's own copies move rows.
  bool maps = false;
  /// Whether the link raises flags and exchanges headers. Every call needs both.
  bool signals = false;
};

namespace detail {

inline constexpr std::array kLinks{
    LinkRow{LinkKind::wire, "emulated wire",
            [](const RankPair& p) { return p.device == Device::cpu && p.metered; }, true, true},
    LinkRow{LinkKind::shared_memory, "shared memory",
            [](const RankPair& p) { return p.device == Device::cpu; }, true, true},
    LinkRow{LinkKind::peer_memory, "peer memory",
            [](const RankPair& p) { return p.device == Device::cuda && p.reached; }, true, true},
    LinkRow{LinkKind::nccl, "NCCL", [](const RankPair& p) { return p.device == Device::cuda; }},
};

}  // namespace detail

constexpr std::span<const LinkRow> link_table() { return detail::kLinks; }

/// The link of these two ranks.
constexpr const LinkRow& link_of(const RankPair& pair) {
  return *std::find_if(detail::kLinks.begin(), detail::kLinks.end(),
                       [&](const LinkRow& row) { return row.joins(pair); });
}

/// Every pair matches some row.
static_assert([] {
  for (const Device device : {Device::cpu, Device::cuda})
    for (const bool reached : {false, true}) {
      const RankPair pair{.device = device, .reached = reached};
      if (std::none_of(detail::kLinks.begin(), detail::kLinks.end(),
                       [&](const LinkRow& row) { return row.joins(pair); }))
        return false;
    }
  return true;
}());

}  // namespace tilelace::comm
