// SPDX-License-Identifier: Apache-2.0
// Collectives on a CPU rank: their staging, and the verbs of their schedule.
#pragma once
#include <memory>

#include "backend/cpu/call.h"
#include "plan/collectives/collective.h"

namespace tilelace::cpu {

/// A rank's staging for collectives: two slots, as other calls have, but of fixed size.
class Collectives {
 public:
  Collectives(int ranks, int workers);

  [[nodiscard]] const plan::CollectiveMachine& machine() const { return machine_; }
  [[nodiscard]] bool ready() const { return memory_ != nullptr; }
  /// Collective. Errors: as comm::Group::allocate.
  void allocate(comm::Group&, std::uint32_t epoch, double timeout_s);
  [[nodiscard]] SlotView slot(std::uint32_t epoch) const;
  /// Overwrites the first `bytes` of the rank's data in the slot with a pattern, so that a read
  /// after the call's end gives wrong results.
  void poison(int rank, std::uint32_t epoch, Index bytes) const;

 private:
  [[nodiscard]] std::int64_t slot_bytes() const { return flag_bytes_ + machine_.staged_bytes; }

  plan::CollectiveMachine machine_;
  std::int64_t flag_bytes_ = 0;
  std::shared_ptr<comm::SymmetricMemory> memory_;
};

using PlacedCollective = plan::PlacedExchange<comm::kMaxRanks>;

/// Verbs of schedule::run_staged_exchange for one worker.
class CollectiveVerbs final : public CallVerbs {
 public:
  CollectiveVerbs(Call& call, int worker, const PlacedCollective& placed,
                  const CollectiveArgs& args)
      : CallVerbs(call, {worker}), placed_(placed), s_(placed.schedule), args_(args) {}

  void send(schedule::ExchangeRound);
  void take(schedule::ExchangeRound);
  void deliver(schedule::ExchangeRound);

 private:
  /// Bytes [at, at + size) of a parcel.
  struct Bytes {
    Index at = 0, size = 0;
  };
  [[nodiscard]] Meaning meaning(Index flag) const override;
  [[nodiscard]] static Bytes bytes_of(RowRange units, const plan::Parcel&);
  [[nodiscard]] std::byte* place(int rank, Index unit) const;
  [[nodiscard]] const std::byte* in(const plan::Parcel&, Index at) const;
  [[nodiscard]] std::byte* out(const plan::Parcel&, Index at) const;
  void put(int peer, Index unit, const std::byte* from, Index size);
  void take_sum(schedule::ExchangeRound);

  const PlacedCollective& placed_;
  const schedule::ExchangeOf<comm::kMaxRanks>& s_;
  const CollectiveArgs& args_;
};

}  // namespace tilelace::cpu
