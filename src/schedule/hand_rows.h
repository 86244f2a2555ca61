// SPDX-License-Identifier: Apache-2.0
// gemm_rs as a GEMM and then a sum, for ranks that do not pull partials (reduce_rows.h) but hand
// them to the rank that needs the sum. Every rank's partial [m, n] is in its slot (staging memory).
// Chunks and workers are as in ReduceRows in the form own_rows. A rank's header of a call says that
// its partial is complete.
//
//   added   a rank adds its partial for a peer's rows to the peer's own partial, in the peer's
//           slot, so terms are added in the order of arrival
//
//   ring    a shard's sum goes around the ring, from the rank after its owner to the owner, and
//           each rank adds its partial: ranks - 1 steps between neighbours
//
//   copied  copy engines bring the partials to their owners before the header, so no flag is needed
//
// A worker waits only for peers' workers of the same number. Those workers send before they wait
// (added), or are on a rank nearer to the start of the shard's way (ring).
#pragma once
#include "schedule/reduce_rows.h"

namespace tilelace::schedule {

enum class HandWay : std::uint8_t { copied, added, ring };

struct HandRows : ReduceRows {
  HandWay way = HandWay::copied;
};

/// Flag that says that the chunk from peer `from` (added) or of `from`'s shard (ring) has arrived.
[[nodiscard]] TILELACE_HD constexpr Index handed_flag(const ReduceRows& s, int from, Index chunk) {
  return from * s.max_chunks + chunk;
}
[[nodiscard]] TILELACE_HD constexpr Index num_handed_flags(const ReduceRows& s) {
  return s.ranks * s.max_chunks;
}

namespace detail {

/// Sums and stores the own chunks. `before(c)` waits for the data that chunk c needs.
template <class Verbs, class Before>
TILELACE_ROLE void finish_own(const ReduceRows& s, int worker, Verbs& v, const Before& before) {
  for (Index c = worker; c < s.chunks[s.rank]; c += s.workers) {
    before(c);
    v.reduce(s.chunk(s.rank, c));
    v.store(s.chunk(s.rank, c));
  }
}

template <class Verbs>
TILELACE_ROLE void hand_added(const ReduceRows& s, int worker, Verbs& v) {
  for (int i = 1; i < s.ranks; ++i) {
    const int owner = (s.rank + i) % s.ranks;
    for (Index c = worker; c < s.chunks[owner]; c += s.workers) {
      v.store_partial(s.chunk(owner, c), owner);
      v.signal(owner, handed_flag(s, s.rank, c));
    }
  }
  finish_own(s, worker, v, [&](Index c) {
    for (int i = 1; i < s.ranks; ++i) v.wait(handed_flag(s, (s.rank + s.ranks - i) % s.ranks, c));
  });
}

template <class Verbs>
TILELACE_ROLE void hand_round(const ReduceRows& s, int worker, Verbs& v) {
  const int next = (s.rank + 1) % s.ranks;
  for (int step = 0; step + 1 < s.ranks; ++step) {
    const int owner = (s.rank + 2 * s.ranks - 1 - step) % s.ranks;
    for (Index c = worker; c < s.chunks[owner]; c += s.workers) {
      if (step > 0) {
        v.wait(handed_flag(s, owner, c));
        v.reduce(s.chunk(owner, c));
      }
      v.store_partial(s.chunk(owner, c), next);
      v.signal(next, handed_flag(s, owner, c));
    }
  }
  finish_own(s, worker, v, [&](Index c) {
    if (s.ranks > 1) v.wait(handed_flag(s, s.rank, c));
  });
}

}  // namespace detail

/// Role `reduce`, worker w of s.workers, after the admission:
///   reduce(chunk)               adds the own partial and the data that has arrived for this chunk
///   store_partial(chunk, peer)  added: adds the own partial to the partial of `peer`; ring: stores
///                               the reduced chunk (the first rank: its own partial) at `peer`
///   store(chunk)                stores the reduced chunk of own rows in the user's result
template <HandWay kWay, class Verbs>
TILELACE_ROLE void run_hand_rows(const ReduceRows& s, int worker, Verbs& v) {
  if constexpr (kWay == HandWay::added)
    detail::hand_added(s, worker, v);
  else if constexpr (kWay == HandWay::ring)
    detail::hand_round(s, worker, v);
  else
    detail::finish_own(s, worker, v, [](Index) {});
}

/// The same, if the way is known only at run time.
template <class Verbs>
TILELACE_ROLE void run_hand_rows(const HandRows& s, int worker, Verbs& v) {
  switch (s.way) {
    case HandWay::added: return run_hand_rows<HandWay::added>(s, worker, v);
    case HandWay::ring: return run_hand_rows<HandWay::ring>(s, worker, v);
    case HandWay::copied: return run_hand_rows<HandWay::copied>(s, worker, v);
  }
}

}  // namespace tilelace::schedule
