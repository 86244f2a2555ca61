// SPDX-License-Identifier: Apache-2.0
// What the host says to kernels of an exchange: parcels, and where a slot keeps what.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/rank/rank_calls.h"

namespace tilelace::cuda {

using PlacedParcels = plan::PlacedExchange<schedule::kMaxGpuRanks>;

/// A piece's schedule and parcels. Hashes and the slot are to come.
ExchangeParams exchange_params(const plan::CollectiveCall&, const PlacedParcels&, const void* in,
                               void* out);

/// All ranks make the call of this hash.
void set_hash(ExchangeParams&, std::uint32_t hash);

/// What its places take of a slot.
SlotNeeds slot_needs_of(const schedule::Exchange&, bool lines);
/// Fills in where a call is: its words, and its places; those of chunks at offset `chunks`. After
/// the hashes.
void place_in_slot(ExchangeParams&, const RankCalls&, unsigned slot, bool lines, std::size_t chunks,
                   const CallName&);

/// CTAs of a call's kernel.
int exchange_ctas(const plan::CollectivePlan&);

}  // namespace tilelace::cuda
