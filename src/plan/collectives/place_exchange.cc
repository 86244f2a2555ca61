// SPDX-License-Identifier: Apache-2.0
// The schedule of a collective, and what ranks must agree on.
#include <algorithm>

#include "plan/collectives/collective.h"

namespace tilelace::plan {

using schedule::ceil_div;
using schedule::kUnitBytes;

namespace {

/// Units [begin, begin + units) of a parcel.
Parcel part_of(const Parcel& p, Index begin, Index units) {
  const Index at = std::min(begin * kUnitBytes, p.bytes);
  return {p.at + at, std::min(units * kUnitBytes, p.bytes - at)};
}

/// Of an all_reduce in two shots: what each rank sums.
Parcel owned_by(const Parcel& whole, int ranks, int owner) {
  const schedule::RowSplit split{ceil_div(whole.bytes, kUnitBytes), ranks, nullptr};
  const schedule::RowRange own = split.shard(owner);
  return part_of(whole, own.begin, own.size());
}

}  // namespace

template <int kMost>
PlacedExchange<kMost> place_exchange(const CollectiveCall& c, const CollectivePlan& p,
                                     Index piece) {
  PlacedExchange<kMost> placed;
  auto& s = placed.schedule;
  s.rank = c.rank;
  s.ranks = c.ranks;
  s.workers = p.workers;
  s.chunk = p.chunk;
  s.ring = p.lines ? 1 : schedule::kRing;
  s.sums = row_of(c.collective).sums;
  s.shares = p.shots == 2;
  s.direct = p.direct;
  const auto own = static_cast<std::size_t>(c.rank);
  for (int q = 0; q < c.ranks; ++q) {
    const auto at = static_cast<std::size_t>(q);
    const Parcel send = s.shares ? owned_by(c.sends[at], c.ranks, q) : c.sends[at];
    const Parcel take = s.shares ? owned_by(c.takes[at], c.ranks, q) : c.takes[at];
    placed.sends[q] = part_of(send, piece * p.piece, p.piece);
    placed.takes[q] = part_of(take, piece * p.piece, p.piece);
    s.sends[q] = ceil_div(placed.sends[q].bytes, kUnitBytes);
    s.takes[q] = ceil_div(placed.takes[q].bytes, kUnitBytes);
    s.owned[q] = s.shares ? s.takes[q] : 0;
  }
  // What comes in for a sum is as long as the sum.
  for (int q = 0; q < c.ranks && s.shares; ++q) s.takes[q] = s.owned[own];
  return placed;
}

template PlacedExchange<schedule::kMaxGpuRanks> place_exchange(const CollectiveCall&,
                                                               const CollectivePlan&, Index);
template PlacedExchange<64> place_exchange(const CollectiveCall&, const CollectivePlan&, Index);

namespace {

class WordHash {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15U;
    value_ ^= value_ >> 29U;
  }
  [[nodiscard]] std::uint32_t word() const {
    const auto folded = static_cast<std::uint32_t>(value_ ^ value_ >> 32U);
    return folded < kFirstHash ? folded + kFirstHash : folded;
  }

 private:
  std::uint64_t value_ = 0x6c6c6f63;
};

}  // namespace

std::uint32_t collective_hash(const CollectiveCall& c, const CollectivePlan& p, std::uint64_t out,
                              std::uint64_t in) {
  WordHash h;
  for (const auto word :
       {static_cast<std::uint64_t>(c.collective), static_cast<std::uint64_t>(c.reduction),
        static_cast<std::uint64_t>(c.item), static_cast<std::uint64_t>(c.ranks),
        std::uint64_t{p.lines}, static_cast<std::uint64_t>(p.shots), std::uint64_t{p.direct},
        static_cast<std::uint64_t>(p.workers), static_cast<std::uint64_t>(p.chunk),
        c.counts.size()})
    h.add(word);
  for (const Index count : c.counts) h.add(static_cast<std::uint64_t>(count));
  h.add(out);
  if (in != 0) h.add(in);
  if (c.meaning != 0) h.add(c.meaning);
  return h.word();
}

std::uint64_t meaning_of(std::string_view words) {
  WordHash h;
  for (const char c : words) h.add(static_cast<unsigned char>(c));
  return h.word();
}

std::uint32_t hash_between(const CollectiveCall& c, std::uint32_t hash, int from, int to) {
  if (!c.counts.empty()) return hash;
  const auto peer = static_cast<std::size_t>(from == c.rank ? to : from);
  const Index sent = c.sends[peer].bytes, taken = c.takes[peer].bytes;
  const bool up = c.rank < static_cast<int>(peer);  // the same on both sides: from the lower first
  WordHash h;
  h.add(hash);
  h.add(static_cast<std::uint64_t>(up ? sent : taken));
  h.add(static_cast<std::uint64_t>(up ? taken : sent));
  return h.word();
}

}  // namespace tilelace::plan
