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
  std::vector<Parcel> sends;  ///< parts of `in`, by rank; all_reduce: one, all of it
  std::vector<Parcel> takes;  ///< parts of `out`, by rank; for sums: what this rank gets
  std::vector<Index> counts;  ///< elements of each rank, if all know them; all_reduce: one entry;
                              ///< all_to_all with a list: empty
  std::uint64_t meaning = 0;  ///< a sum inside another call: what else must agree
  bool operator==(const CollectiveCall&) const = default;
};

/// The Item of the same name as this element type. Errors: usage (there is none).
Item item_of(DType);
/// Errors: usage, a value that names no collective.
const CollectiveRow& known_row(Collective);

/// Errors: usage, which name the first thing that is wrong with the arguments.
CollectiveCall check_collective(Collective, const CollectiveArgs&, int rank, int ranks);

/// Staging per rank and slot: flags, places for chunks and, separately, places for lines.
constexpr Index kStagedBytes = Index{32} << 20U;  ///< places for chunks, between two ranks
constexpr Index kMostStagedBytes = Index{96} << 20U;
/// Bytes of the places for chunks. Up to four ranks, each worker has room for whole chunks.
constexpr Index staged_bytes(int ranks) {
  constexpr Index kMore = Index{24} << 20U;
  return std::clamp(kStagedBytes + kMore * (ranks - 2), kStagedBytes, kMostStagedBytes);
}
constexpr Index kLineBytes = Index{8} << 20U;
/// Bytes of a unit as lines. Half of them are the call's number (backend/cuda/device/lines.h).
constexpr Index kBytesOfLines = 2 * schedule::kUnitBytes;
/// Units of one warp, two lines each. First lines of all units come first, then all second lines.
constexpr Index kLineGroup = 32;
/// Workers per CTA of chunks: one per warp. (A CTA of lines is one worker.)
constexpr Index kChunkWorkers = 8;
/// Threads of a CTA of lines; each has one unit.
constexpr Index kLineThreads = 256;
/// CTAs per SM. For chunks: kCtas; between two ranks and in direct calls kCtasOfTwo,
/// since those kernels need fewer registers. For lines: one; between two ranks
/// kCtas.
constexpr int kCtas = 2, kCtasOfTwo = 3;
constexpr int kMostCtas = 132 * kCtasOfTwo;
constexpr Index kMostWorkers = kMostCtas * kChunkWorkers;
constexpr Index kMostChunk = 2048;  ///< units
/// Bytes of the words that chunks write as flags: for parcels, and for sums that are shared.
constexpr Index word_bytes(int ranks) {
  constexpr Index kKinds = 2, kWord = 8;
  return kKinds * ranks * schedule::kRing * kMostWorkers * kWord;
}
/// Units of a chunk: kFullChunk (four loads per lane of a warp). Calls of fewer than kFewRounds
/// rounds have kShortChunk (three loads), so that fewer workers are idle in the last round.
constexpr Index kFullChunk = 128, kShortChunk = 96, kFewRounds = 8;

/// All choices of a call; equal on every rank.
struct CollectivePlan {
  bool lines = false;
  int shots = 1;
  bool direct = false;  ///< directly between tensors that peers can reach
  int workers = 1;
  Index chunk = 1;   ///< units
  Index pieces = 1;  ///< schedules run in sequence, each for `piece` units of a parcel
  Index piece = 0;   ///< units
  double predicted_us = 0;
};

/// The machine that plans are made for.
struct CollectiveMachine {
  int workers = 1;                      ///< SMs that may be used, or threads of CPU ranks
  int architecture = 0;                 ///< predictions use its figures
  Index staged_bytes = 0;               ///< bytes for chunks; 0: staged_bytes(ranks)
  Index most_rounds = Index{1} << 31U;  ///< the most rounds of a call
  bool shared = false;                  ///< shared with other communicators: one CTA per SM
  bool gpu = true;  ///< workers: CTAs (lines) or warps (chunks); false: threads, only chunks
};

/// Whether a call can be sent as lines: slots must have room for all of them. Never on CPU ranks.
bool may_be_lines(const CollectiveCall&, const CollectiveMachine&, int shots);

/// The tensors that peers must be able to reach in a direct call.
struct DirectNeeds {
  bool in = false, out = false;
};
/// The needs of the call's direct form; none: there is no such form.
std::optional<DirectNeeds> direct_needs(const CollectiveCall&);

/// `direct`: peers can reach what direct_needs() asks for. Errors: usage (an option that is not
/// possible for the call).
CollectivePlan plan_collective(const CollectiveCall&, const CollectiveMachine&,
                               const CollectiveOptions&, bool direct);
std::string describe(const CollectivePlan&);
/// Microseconds of a call with this plan on a machine with these figures.
double collective_us(const CollectiveCall&, const CollectivePlan&, const Hardware&);

/// The schedule of one piece of a call, and where its parcels are.
template <int kMost>
struct PlacedExchange {
  schedule::ExchangeOf<kMost> schedule;
  Parcel sends[kMost]{};  ///< in `in`, for each rank
  Parcel takes[kMost]{};  ///< in `out`, from each rank; own: what stays, or this rank's sums
};

template <int kMost>
PlacedExchange<kMost> place_exchange(const CollectiveCall& call, const CollectivePlan& plan,
                                     Index piece);
extern template PlacedExchange<schedule::kMaxGpuRanks> place_exchange(const CollectiveCall&,
                                                                      const CollectivePlan&, Index);
extern template PlacedExchange<64> place_exchange(const CollectiveCall&, const CollectivePlan&,
                                                  Index);

/// Hash of all that ranks must agree on. `out`, `in`: the peers' memory that a direct call uses.
/// hash_between adds what only ranks `from` and `to` know, and both compute the same word. Hashes
/// are at least kFirstHash, since smaller words have other meanings.
constexpr std::uint32_t kFirstHash = 128;
std::uint32_t collective_hash(const CollectiveCall&, const CollectivePlan&, std::uint64_t out = 0,
                              std::uint64_t in = 0);
/// Hash of a text that must be equal on all ranks, for CollectiveCall::meaning; never 0.
std::uint64_t meaning_of(std::string_view words);
std::uint32_t hash_between(const CollectiveCall&, std::uint32_t hash, int from, int to);

}  // namespace tilelace::plan
