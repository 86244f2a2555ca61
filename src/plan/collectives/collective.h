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
  std::vector<Parcel> sends;  ///< the part of `in` sent to each rank (all of `in` in all_reduce)
  std::vector<Parcel> takes;  ///< the part of `out` for each rank's data (all of `out` in sums)
  std::vector<Index> counts;  ///< elements of each rank (one entry in all_reduce); empty if this is
                              ///< an all_to_all with lists, since a rank knows only its own list
  std::uint64_t meaning = 0;  ///< hash of what else must agree, if part of a larger call; else 0
  bool operator==(const CollectiveCall&) const = default;
};

/// The Item that has the name of this element type. Errors: usage (there is none).
Item item_of(DType);
/// The row of a collective in the table of collectives. Errors: usage (not a collective).
const CollectiveRow& known_row(Collective);

/// Makes the call from arguments, after checking them. Errors: usage (names the first fault).
CollectiveCall check_collective(Collective, const CollectiveArgs&, int rank, int ranks);

/// A slot has flags, places for chunks, and separate places for lines (kLineBytes).
constexpr Index kStagedBytes = Index{32} << 20U;  ///< bytes for chunks if there are two ranks
constexpr Index kMostStagedBytes = Index{96} << 20U;
/// Bytes for chunks. Full chunks of all workers fit with 3 or 4 ranks, and with 2 if one-shot.
constexpr Index staged_bytes(int ranks) {
  constexpr Index kMore = Index{24} << 20U;
  return std::clamp(kStagedBytes + kMore * (ranks - 2), kStagedBytes, kMostStagedBytes);
}
constexpr Index kLineBytes = Index{8} << 20U;
/// Bytes of a unit sent as lines. Each word of a line holds 4 bytes of data and the call's number.
constexpr Index kBytesOfLines = 2 * schedule::kUnitBytes;
/// Units of a group. A unit has two lines. In memory, all first lines precede all second lines.
constexpr Index kLineGroup = 32;
/// Workers (warps) per CTA in calls by chunks. In calls by lines a CTA is one worker.
constexpr Index kChunkWorkers = 8;
/// The most threads that move units in a CTA of a call by lines.
constexpr Index kLineThreads = 256;
/// CTAs per SM. Calls by chunks have kCtasOfTwo if they are direct or between two ranks (these
/// kernels need fewer registers), else kCtas. Calls by lines have kCtas between two ranks, else
/// one.
constexpr int kCtas = 2, kCtasOfTwo = 3;
constexpr int kMostCtas = 132 * kCtasOfTwo;
constexpr Index kMostWorkers = kMostCtas * kChunkWorkers;
constexpr Index kMostChunk = 2048;  ///< the most units of a chunk
/// Bytes of the flags of chunks. Chunks of parcels and chunks of shared sums have separate flags.
constexpr Index word_bytes(int ranks) {
  constexpr Index kKinds = 2, kWord = 8;
  return kKinds * ranks * schedule::kRing * kMostWorkers * kWord;
}
/// A chunk on GPUs has at most kFullChunk units (four loads per lane of a warp). In staged calls of
/// less than kFewRounds rounds it has at most kShortChunk, so that fewer workers idle at the end.
constexpr Index kFullChunk = 128, kShortChunk = 96, kFewRounds = 8;

/// All choices of a call; equal on every rank.
struct CollectivePlan {
  bool lines = false;
  int shots = 1;
  bool direct = false;  ///< whether data goes directly between tensors, without staging
  int workers = 1;
  Index chunk = 1;   ///< units of a chunk
  Index pieces = 1;  ///< number of schedules run in sequence, each for `piece` units of a parcel
  Index piece = 0;   ///< units of each parcel in one schedule
  double predicted_us = 0;
};

/// The machine that plans are made for.
struct CollectiveMachine {
  int workers = 1;                      ///< SMs that a GPU rank may use, or threads of a CPU rank
  int architecture = 0;                 ///< index in kArchitectures, whose figures predict times
  Index staged_bytes = 0;               ///< bytes for chunks; 0: staged_bytes(ranks)
  Index most_rounds = Index{1} << 31U;  ///< the most rounds of a call
  bool shared = false;                  ///< whether other communicators use the same device
  bool gpu = true;  ///< true: workers are CTAs (lines) or warps (chunks); false: threads
};

/// Whether a call can be sent as lines. It must be on GPUs, have `counts`, and all lines must fit.
bool may_be_lines(const CollectiveCall&, const CollectiveMachine&, int shots);

/// The tensors that peers must be able to reach in a direct call.
struct DirectNeeds {
  bool in = false, out = false;
};
/// What the call needs to be direct; nullopt: it cannot be direct.
std::optional<DirectNeeds> direct_needs(const CollectiveCall&);

/// `direct`: whether peers can reach the tensors of direct_needs(). Errors: usage (an option that
/// is not possible for the call).
CollectivePlan plan_collective(const CollectiveCall&, const CollectiveMachine&,
                               const CollectiveOptions&, bool direct);
std::string describe(const CollectivePlan&);
/// Predicted microseconds of a call with this plan on a machine with these figures.
double collective_us(const CollectiveCall&, const CollectivePlan&, const Hardware&);

/// The schedule of one piece of a call, and where its parcels are.
template <int kMost>
struct PlacedExchange {
  schedule::ExchangeOf<kMost> schedule;
  Parcel sends[kMost]{};  ///< part of `in` sent to each rank
  Parcel takes[kMost]{};  ///< part of `out` for each rank's data; this rank: kept data or own sums
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
