// SPDX-License-Identifier: Apache-2.0
// What the host says to kernels of an exchange: parcels, and where a slot keeps what.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/rank/rank_calls.h"

namespace tilelace::cuda {

using PlacedParcels = plan::PlacedExchange<schedule::kMaxGpuRanks>;

/// A piece's schedule and parcels. The caller then sets the hashes, and the slot (place_in_slot).
ExchangeParams exchange_params(const plan::CollectiveCall&, const PlacedParcels&, const void* in,
                               void* out);

/// Sets this hash as the one that all ranks send and expect.
void set_hash(ExchangeParams&, std::uint32_t hash);

/// The room in a slot that a schedule's places and words need.
SlotNeeds slot_needs_of(const schedule::Exchange&, bool lines);
/// Fills in where in the slot a call has its words and its places (those of chunks: at offset
/// `chunks`). Set the hashes first.
void place_in_slot(ExchangeParams&, const RankCalls&, unsigned slot, bool lines, std::size_t chunks,
                   const CallName&);

/// CTAs of a call's kernel.
int exchange_ctas(const plan::CollectivePlan&);

}  // namespace tilelace::cuda
