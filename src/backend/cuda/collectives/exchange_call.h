// SPDX-License-Identifier: Apache-2.0
// Fills the parameters of an exchange's kernel: parcels, and places in the slot.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/rank/rank_calls.h"

namespace tilelace::cuda {

using PlacedParcels = plan::PlacedExchange<schedule::kMaxGpuRanks>;

/// Parameters for one piece of a call. The caller then sets the hashes and calls place_in_slot.
ExchangeParams exchange_params(const plan::CollectiveCall&, const PlacedParcels&, const void* in,
                               void* out);

/// Makes this hash the one that all ranks send and expect.
void set_hash(ExchangeParams&, std::uint32_t hash);

/// The room that a schedule's places (for data) and words (flags) need in a slot.
SlotNeeds slot_needs_of(const schedule::Exchange&, bool lines);
/// Fills in where a call's words and places are in the slot. The places of chunks are at offset
/// `chunks`. Set the hashes first.
void place_in_slot(ExchangeParams&, const RankCalls&, unsigned slot, bool lines, std::size_t chunks,
                   const CallName&);

/// Number of CTAs of a call's kernel.
int exchange_ctas(const plan::CollectivePlan&);

}  // namespace tilelace::cuda
