// SPDX-License-Identifier: Apache-2.0
// Flags that only grow and order data between ranks, and waits that always end.
//
// A flag is a word with one writer. It carries the epoch (call number) and only grows; waits
// compare signed >=, so a flag that is an epoch ahead satisfies a wait, and the number may wrap.
// Release and acquire here are accesses to the flag itself, not fences. Every wait has a bound and
// watches an abort word. `Atomics` reads and writes words (StdAtomics on the host, CudaAtomics on
// the device, or a test's own), with static members: load_acquire, store_release, compare_exchange,
// now_ns, pause.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::comm {

using Flag = std::uint32_t;
/// Header flag: epoch in the high half, agreement hash of the call in the low half.
using Header = std::uint64_t;
/// 0 while all is well, then the first reason that was written (see AbortReason).
using AbortWord = std::uint64_t;

TILELACE_HD constexpr bool epoch_reached(std::uint32_t have, std::uint32_t want) {
  return static_cast<std::int32_t>(have - want) >= 0;
}

TILELACE_HD constexpr Header make_header(std::uint32_t epoch, std::uint32_t hash) {
  return (static_cast<Header>(epoch) << 32) | hash;
}
TILELACE_HD constexpr std::uint32_t header_epoch(Header h) {
  return static_cast<std::uint32_t>(h >> 32);
}
TILELACE_HD constexpr std::uint32_t header_hash(Header h) { return static_cast<std::uint32_t>(h); }

/// Why a group stopped: the kind of error, the rank that raised it, and the rank to blame.
struct AbortReason {
  std::uint8_t kind = 0;     ///< an ErrorKind; 0: not aborted
  std::uint16_t origin = 0;  ///< rank that raised the error
  std::uint16_t about = 0;   ///< rank that is to blame; for a call of abort(): origin
};

TILELACE_HD constexpr AbortWord pack_abort(AbortReason r) {
  return (static_cast<AbortWord>(r.kind) << 32) | (static_cast<AbortWord>(r.origin) << 16) |
         r.about;
}
TILELACE_HD constexpr AbortReason unpack_abort(AbortWord w) {
  return {static_cast<std::uint8_t>(w >> 32), static_cast<std::uint16_t>(w >> 16),
          static_cast<std::uint16_t>(w)};
}

enum class WaitStatus : std::uint8_t { reached, aborted, expired };

/// Publishes this thread's earlier writes to threads that observe the flag at `epoch` or later.
/// Called by: the flag's one writer. Order: release. Never blocks.
template <class Atomics>
TILELACE_HD inline void signal(Flag* flag, std::uint32_t epoch) {
  Atomics::store_release(flag, epoch);
}

/// Like the signal of a flag, but for the header of a call.
template <class Atomics>
TILELACE_HD inline void signal(Header* header, std::uint32_t epoch, std::uint32_t hash) {
  Atomics::store_release(header, make_header(epoch, hash));
}

/// Writes the reason unless the word holds a reason. Any thread; order: acquire and release.
template <class Atomics>
TILELACE_HD inline void raise_abort(AbortWord* word, AbortReason reason) {
  AbortWord expected = 0;
  Atomics::compare_exchange(word, expected, pack_abort(reason));
}

template <class Atomics>
TILELACE_HD inline AbortReason read_abort(const AbortWord* word) {
  return unpack_abort(Atomics::load_acquire(word));
}

/// Waits until `reached(load_acquire(word))` is true, the abort word is set, or the deadline (ns of
/// Atomics' own clock) has passed. Order: acquire; after WaitStatus::reached, all that the writer
/// had published is visible. `seen` receives the last value read.
template <class Atomics, class Word, class Reached>
TILELACE_HD inline WaitStatus wait_until(const Word* word, Reached reached, const AbortWord* abort,
                                         std::int64_t deadline_ns, Word& seen) {
  for (std::uint32_t round = 0;; ++round) {
    seen = Atomics::load_acquire(word);
    if (reached(seen)) return WaitStatus::reached;
    // Checked only in every eighth round, since a check per round would halve the rate of polling.
    if ((round & 7U) == 7U && Atomics::load_acquire(abort) != 0) return WaitStatus::aborted;
    if ((round & 15U) == 15U && Atomics::now_ns() >= deadline_ns) return WaitStatus::expired;
    Atomics::pause(round);
  }
}

/// Waits for a flag to reach `epoch`. See wait_until.
template <class Atomics>
TILELACE_HD inline WaitStatus wait(const Flag* flag, std::uint32_t epoch, const AbortWord* abort,
                                   std::int64_t deadline_ns, Flag& seen) {
  return wait_until<Atomics>(
      flag, [epoch](Flag have) { return epoch_reached(have, epoch); }, abort, deadline_ns, seen);
}

/// Waits for a peer's header to reach `epoch`. The caller checks whether the hash agrees.
template <class Atomics>
TILELACE_HD inline WaitStatus wait(const Header* header, std::uint32_t epoch,
                                   const AbortWord* abort, std::int64_t deadline_ns, Header& seen) {
  return wait_until<Atomics>(
      header, [epoch](Header have) { return epoch_reached(header_epoch(have), epoch); }, abort,
      deadline_ns, seen);
}

}  // namespace tilelace::comm
