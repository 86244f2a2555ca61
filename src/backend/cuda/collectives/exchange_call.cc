// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/collectives/exchange_call.h"

#include <algorithm>

namespace tilelace::cuda {
namespace {

ParcelAt at(const void* data, const plan::Parcel& p) {
  const auto* const begin = static_cast<const std::byte*>(data);
  return {const_cast<std::byte*>(begin) + p.at, p.bytes};  // what is sent is only read
}

}  // namespace

ExchangeParams exchange_params(const plan::CollectiveCall& call, const PlacedParcels& placed,
                               const void* in, void* out) {
  ExchangeParams p{};
  p.schedule = schedule::RingExchange(placed.schedule);
  p.divisor = call.reduction == Reduction::avg ? static_cast<float>(call.ranks) : 1.0F;
  p.item = call.item;
  p.reduction = call.reduction;
  p.same = !placed.schedule.sums || (row_of(call.collective).shares && !placed.schedule.shares);
  p.same = p.same && call.collective != Collective::all_to_all;
  for (int q = 0; q < call.ranks; ++q) {
    p.sends[q] = at(in, placed.sends[q]);
    p.takes[q] = at(out, placed.takes[q]);
  }
  return p;
}

void set_hash(ExchangeParams& p, std::uint32_t hash) {
  std::ranges::fill(p.told, hash);
  std::ranges::fill(p.expected, hash);
}

SlotNeeds slot_needs_of(const schedule::Exchange& s, bool lines) {
  SlotNeeds needs;
  const auto units = static_cast<std::size_t>(s.num_units());
  if (!lines) needs.bytes = units * schedule::kUnitBytes;
  needs.lines = static_cast<std::size_t>(plan::word_bytes(s.ranks));
  if (lines) needs.lines += units * plan::kBytesOfLines;
  return needs;
}

void place_in_slot(ExchangeParams& p, const RankCalls& calls, unsigned slot, bool lines,
                   std::size_t chunks, const CallName& name) {
  p.call = calls.params(slot, p.told[p.schedule.rank], name);
  p.call.flags = calls.lines_at(slot);
  p.places =
      lines ? p.call.flags + static_cast<std::size_t>(plan::word_bytes(p.schedule.ranks)) : chunks;
  p.lets_next_begin = !calls.shares_device();
}

int exchange_ctas(const plan::CollectivePlan& plan) {
  return plan.lines ? plan.workers : plan.workers / static_cast<int>(plan::kChunkWorkers);
}

}  // namespace tilelace::cuda
