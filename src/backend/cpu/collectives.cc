// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/collectives.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/item_sums.h"
#include "core/points.h"

namespace tilelace::cpu {

using schedule::ExchangeRound;
using schedule::kUnitBytes;

namespace {

/// Of a slot, for places of chunks.
constexpr Index kPlaceBytes = Index{4} << 20U;
/// More only fill caches, and flags are as many as workers.
constexpr int kMostMovers = 16;

}  // namespace

Collectives::Collectives(int ranks, int workers)
    : machine_{.workers = std::min(workers, kMostMovers),
               .staged_bytes = kPlaceBytes,
               .most_rounds = schedule::kMaxExchangeRounds,
               .gpu = false} {
  schedule::ExchangeOf<comm::kMaxRanks> most;
  most.ranks = ranks;
  most.workers = machine_.workers;
  most.shares = true;
  flag_bytes_ = most.num_flags() * static_cast<std::int64_t>(sizeof(comm::Flag));
}

void Collectives::allocate(comm::Group& group, std::uint32_t epoch, double timeout_s) {
  auto memory = group.allocate(2 * static_cast<std::size_t>(slot_bytes()), timeout_s);
  for (int slot = 0; slot < 2; ++slot) {
    auto* words = reinterpret_cast<comm::Flag*>(memory->peer(group.rank()) + slot * slot_bytes());
    std::fill(words, words + flag_bytes_ / static_cast<std::int64_t>(sizeof(comm::Flag)), epoch);
  }
  group.all_gather("", timeout_s);  // no flag may arrive before this
  memory_ = std::move(memory);
}

SlotView Collectives::slot(std::uint32_t epoch) const {
  return {memory_->peer(0) + slot_bytes() * (epoch & 1U), memory_->stride(), flag_bytes_};
}

void Collectives::poison(int rank, std::uint32_t epoch, Index bytes) const {
  std::memset(slot(epoch).data(rank), points::kPoison, static_cast<std::size_t>(bytes));
}

CallVerbs::Meaning CollectiveVerbs::meaning(Index flag) const {
  const schedule::ExchangeFlag f = s_.flag_meaning(flag);
  return {f.rank, fmt::format("the {} of round {}", f.sums ? "sums" : "parcel", f.round.round)};
}

CollectiveVerbs::Bytes CollectiveVerbs::bytes_of(RowRange units, const plan::Parcel& parcel) {
  const Index at = units.begin * kUnitBytes;
  return {at, std::max<Index>(0, std::min(units.end * kUnitBytes, parcel.bytes) - at)};
}

std::byte* CollectiveVerbs::place(int rank, Index unit) const {
  return call_.slot.data(rank) + unit * kUnitBytes;
}

const std::byte* CollectiveVerbs::in(const plan::Parcel& parcel, Index at) const {
  return static_cast<const std::byte*>(args_.in) + parcel.at + at;
}

std::byte* CollectiveVerbs::out(const plan::Parcel& parcel, Index at) const {
  return static_cast<std::byte*>(args_.out) + parcel.at + at;
}

void CollectiveVerbs::put(int peer, Index unit, const std::byte* from, Index size) {
  store_over(peer, size,
             [&] { std::memcpy(place(peer, unit), from, static_cast<std::size_t>(size)); });
}

void CollectiveVerbs::send(ExchangeRound r) {
  before_peer_memory();  // flags of empty parcels go there, too
  for (int i = 1; i < s_.ranks; ++i) {
    const int q = (s_.rank + i) % s_.ranks;
    const auto [at, size] = bytes_of(s_.part(r, s_.sends[q]), placed_.sends[q]);
    if (size == 0) continue;
    point("copy.before_data", "compute.after_wait");
    put(q, s_.term_place(q, s_.rank, r), in(placed_.sends[q], at), size);
  }
}

void CollectiveVerbs::take(ExchangeRound r) {
  points::pass("compute.before_store", call_.rank());
  if (s_.sums) return take_sum(r);
  for (int p = 0; p < s_.ranks; ++p) {
    const auto [at, size] = bytes_of(s_.part(r, s_.takes[p]), placed_.takes[p]);
    if (size == 0) continue;
    const std::byte* from =
        p == s_.rank ? in(placed_.sends[p], at) : place(s_.rank, s_.term_place(s_.rank, p, r));
    std::byte* to = out(placed_.takes[p], at);
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(size));
  }
}

void CollectiveVerbs::take_sum(ExchangeRound r) {
  const plan::Parcel& sums = placed_.takes[s_.rank];
  const auto [at, size] = bytes_of(s_.part(r, s_.takes[s_.rank]), sums);
  if (size == 0) return;
  std::array<const std::byte*, comm::kMaxRanks> terms{};
  for (int p = 0; p < s_.ranks; ++p)
    terms[static_cast<std::size_t>(p)] =
        p == s_.rank ? in(placed_.sends[p], at) : place(s_.rank, s_.term_place(s_.rank, p, r));
  const auto item = static_cast<Index>(row_of(args_.item).bytes);
  std::byte* to = out(sums, at);
  add_up(args_.item, args_.reduction, {terms.data(), static_cast<std::size_t>(s_.ranks)},
         size / item, to);
  for (int i = 1; i < s_.ranks && s_.shares; ++i) {
    const int q = (s_.rank + i) % s_.ranks;
    put(q, s_.sum_place(q, s_.rank, r), to, size);
  }
}

void CollectiveVerbs::deliver(ExchangeRound r) {
  for (int p = 0; p < s_.ranks; ++p) {
    if (p == s_.rank) continue;
    const auto [at, size] = bytes_of(s_.part(r, s_.owned[p]), placed_.takes[p]);
    if (size == 0) continue;
    std::memcpy(out(placed_.takes[p], at), place(s_.rank, s_.sum_place(s_.rank, p, r)),
                static_cast<std::size_t>(size));
  }
}

}  // namespace tilelace::cpu
