// SPDX-License-Identifier: Apache-2.0
// A call of a collective: its checked arguments and its plan.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/base/hardware.h"
#include "schedule/exchange.h"
#include "tilelace/collectives.h"
#include "tilelace/dtype.h"

namespace tilelace::plan {

using schedule::Index;

/// A range of bytes of a tensor.
struct Parcel {
  Index at = 0, bytes = 0;
  bool operator==(const Parcel&) const = default;
};

struct CollectiveCall {
  Collective collective{};
  Reduction reduction{};
  Item item{};
  int rank = 0, ranks = 1;
  std::vector<Parcel> sends;  ///< for each rank: the part of `in` sent to it; all_reduce: all
  std::vector<Parcel> takes;  ///< each rank's part of `out`; sums: for every rank all of `out`
  std::vector<Index> counts;  ///< elements of each rank; all_reduce: one entry; all_to_all with
                              ///< lists: empty, since each rank knows only its own
  std::uint64_t meaning = 0;  ///< if part of another call: hash of what else must agree; else 0
  bool operator==(const CollectiveCall&) const = default;
};

/// The Item that has the name of this element type. Errors: usage (there is none).
Item item_of(DType);
/// The row of a collective in the table of collectives. Errors: usage (not a collective).
const CollectiveRow& known_row(Collective);

/// Makes the call from arguments, after checking them. Errors: usage (names the first fault).
CollectiveCall check_collective(Collective, const CollectiveArgs&, int rank, int ranks);

/// A slot has flags, places for chunks and, apart from them, places for lines (kLineBytes).
constexpr Index kStagedBytes = Index{32} << 20U;  ///< for chunks, between two ranks
constexpr Index kMostStagedBytes = Index{96} << 20U;
/// Bytes for chunks. For up to four ranks full chunks of all workers fit (two ranks: if one-shot).
constexpr Index staged_bytes(int ranks) {
  constexpr Index kMore = Index{24} << 20U;
  return std::clamp(kStagedBytes + kMore * (ranks - 2), kStagedBytes, kMostStagedBytes);
}
constexpr Index kLineBytes = Index{8} << 20U;
/// Bytes of a unit sent as lines, half of them the call's number (backend/cuda/device/lines.h).
constexpr Index kBytesOfLines = 2 * schedule::kUnitBytes;
/// Units of a group, two lines each: in memory, the units' first lines precede their second lines.
constexpr Index kLineGroup = 32;
/// Workers per CTA of a call by chunks: one per warp. (In a call by lines a CTA is one worker.)
constexpr Index kChunkWorkers = 8;
/// The most threads that move units in a CTA of a call by lines.
constexpr Index kLineThreads = 256;
/// CTAs per SM. In calls by chunks: kCtas, but kCtasOfTwo between two ranks and in direct calls,
/// whose kernels need fewer registers. In calls by lines: one, but kCtas between
/// two ranks.
constexpr int kCtas = 2, kCtasOfTwo = 3;
constexpr int kMostCtas = 132 * kCtasOfTwo;
constexpr Index kMostWorkers = kMostCtas * kChunkWorkers;
constexpr Index kMostChunk = 2048;  ///< units
/// Bytes of the flags of chunks, a word each: a set for chunks of parcels, a set for shared sums.
constexpr Index word_bytes(int ranks) {
  constexpr Index kKinds = 2, kWord = 8;
  return kKinds * ranks * schedule::kRing * kMostWorkers * kWord;
}
/// The most units of a chunk on GPUs: kFullChunk (four loads per lane of a warp). In staged calls
/// of under kFewRounds rounds: kShortChunk (three), so that fewer workers idle in the last round.
constexpr Index kFullChunk = 128, kShortChunk = 96, kFewRounds = 8;

/// All choices of a call; equal on every rank.
struct CollectivePlan {
  bool lines = false;
  int shots = 1;
  bool direct = false;  ///< directly between the ranks' tensors, without staging
  int workers = 1;
  Index chunk = 1;   ///< units
  Index pieces = 1;  ///< number of schedules run in sequence, each for `piece` units a parcel
  Index piece = 0;   ///< units
  double predicted_us = 0;
};

/// The machine that plans are made for.
struct CollectiveMachine {
  int workers = 1;                      ///< GPU ranks: SMs that may be used; CPU ranks: threads
  int architecture = 0;                 ///< index in kArchitectures, whose figures predict times
  Index staged_bytes = 0;               ///< bytes for chunks; 0: staged_bytes(ranks)
  Index most_rounds = Index{1} << 31U;  ///< the most rounds of a call
  bool shared = false;                  ///< other communicators use the device, too: one CTA per SM
  bool gpu = true;  ///< a plan's workers: CTAs (lines) or warps (chunks); false: threads
};

/// Whether a call can be sent as lines: only on GPUs, if `counts` has entries and all lines fit.
bool may_be_lines(const CollectiveCall&, const CollectiveMachine&, int shots);

/// The tensors that peers must be able to reach in a direct call.
struct DirectNeeds {
  bool in = false, out = false;
};
/// What the call needs to be direct; nullopt: it cannot be direct.
std::optional<DirectNeeds> direct_needs(const CollectiveCall&);

/// `direct`: peers can reach the tensors of direct_needs(). Errors: usage (an option that is not
/// possible for the call).
CollectivePlan plan_collective(const CollectiveCall&, const CollectiveMachine&,
                               const CollectiveOptions&, bool direct);
std::string describe(const CollectivePlan&);
/// Predicted microseconds of a call with this plan on a machine with these figures.
double collective_us(const CollectiveCall&, const CollectivePlan&, const Hardware&);

/// The schedule of one piece of a call, and where its parcels are.
template <int kMost>
struct PlacedExchange {
  schedule::ExchangeOf<kMost> schedule;
  Parcel sends[kMost]{};  ///< part of `in` for each rank
  Parcel takes[kMost]{};  ///< part of `out` for each rank's data; own: for kept data or own sums
};

template <int kMost>
PlacedExchange<kMost> place_exchange(const CollectiveCall& call, const CollectivePlan& plan,
                                     Index piece);
extern template PlacedExchange<schedule::kMaxGpuRanks> place_exchange(const CollectiveCall&,
                                                                      const CollectivePlan&, Index);
extern template PlacedExchange<64> place_exchange(const CollectiveCall&, const CollectivePlan&,
                                                  Index);

/// Hash of all that ranks must agree on. `out`, `in`: the peers' memory that a direct call uses.
/// hash_between (below) adds sizes that only ranks `from` and `to` know; both get the same hash.
/// Hashes are at least kFirstHash, since smaller words have other meanings.
constexpr std::uint32_t kFirstHash = 128;
std::uint32_t collective_hash(const CollectiveCall&, const CollectivePlan&, std::uint64_t out = 0,
                              std::uint64_t in = 0);
/// Hash of a text that must be equal on all ranks, for CollectiveCall::meaning; never 0.
std::uint64_t meaning_of(std::string_view words);
std::uint32_t hash_between(const CollectiveCall&, std::uint32_t hash, int from, int to);

}  // namespace tilelace::plan
