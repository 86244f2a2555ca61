// SPDX-License-Identifier: Apache-2.0
// A CPU rank: its slots, packed weights and threads, and how a call runs on them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/call.h"
#include "backend/cpu/collectives.h"
#include "backend/cpu/moe_passes.h"
#include "backend/cpu/worker_pool.h"
#include "backend/cpu/worker_state.h"
#include "tilelace/error.h"

namespace tilelace::cpu {

class Engine final : public Backend {
 public:
  Engine(comm::Group&, const CommunicatorOptions&, std::shared_ptr<CheckedGroup>);
  ~Engine() override;

  [[nodiscard]] Machine machine() const override { return machine_; }
  void prepare(std::span<const PreparedCall>, Before, std::string_view refusal) override;
  void run(const Problem&, const Plan&, const Operands&, Part) override;
  void prepare_collectives(std::string_view refusal) override;
  void collect(Collective, const CollectiveArgs&, const CollectiveOptions&) override;
  void collect_within(const Within&, Collective, const CollectiveArgs&) override;
  MoePasses& moe_passes() override { return moe_; }
  [[nodiscard]] std::string describe(Collective, const CollectiveArgs&,
                                     const CollectiveOptions&) const override;
  void all_reduce_norm(const AllReduceNormArgs&, const CollectiveOptions&) override;
  [[nodiscard]] std::string describe(const AllReduceNormArgs&,
                                     const CollectiveOptions&) const override;
  void refuse(std::string_view reason, void* stream) override;
  void synchronize(void* stream, double bound_s) override;
  ReachableMemory allocate(std::size_t bytes) override;
  std::unique_ptr<RankMemory> make_memory(std::size_t bytes) override;
  [[nodiscard]] std::vector<std::string> findings() const override;
  [[nodiscard]] const comm::LinkRow& link_to(int peer) const override {
    return links_[static_cast<std::size_t>(peer)]->row();
  }

 private:
  struct Packed {
    TensorView source;
    PackedWeight weight;
  };

  /// The largest needs of all prepared calls.
  struct Room {
    std::int64_t flags = 64, data = 64;  ///< sizes in bytes of a slot's flags and of a slot's data
    int tile_m = 1, tile_n = 1;
    Index parked = 0;  ///< number of entries in WorkerState::parked

    [[nodiscard]] bool fits(const Room& r) const { return flags <= r.flags && data <= r.data; }
    [[nodiscard]] bool workers_fit(const Room& r) const {
      return tile_m <= r.tile_m && tile_n <= r.tile_n && parked <= r.parked;
    }
  };

  void ensure_control();
  bool announce_prepare(std::span<const PreparedCall>, std::string_view refusal);
  void agree_on(std::span<const PreparedCall>, Before, std::string_view refusal);
  [[nodiscard]] Room room_of(std::span<const PreparedCall>, const Room& before) const;
  void allocate_slots(const Room&);
  void pack(const PreparedCall&);
  void make_workers(const Room&);
  [[nodiscard]] WeightColumns columns_of(const Problem&, const Plan&, const Operands&) const;
  [[nodiscard]] WeightColumns check_call(const Call&, Part) const;
  void check_staging(const Problem&, const plan::SlotLayout&) const;
  void check_tile(const Problem&, const Plan&) const;
  void begin(Call&, std::string_view card, std::uint32_t hash);
  void tell_peers(const Call&) const;
  void await_headers(Call&);
  void settle(Call&, int peer);
  /// After an actor's error: ends the waits of all other actors, on this rank and on peers.
  void end_waits(const Call&, ErrorKind);
  /// Runs one job on every actor: indices 0 .. workers - 1 compute, index `workers` copies.
  void on_actors(Call&, const std::function<void(int)>& job);
  /// Runs one actor's role, and records the steps if the checked mode is on.
  template <class Schedule, class Verbs, class Role>
  void act(const Call&, const Schedule&, Actor, Verbs&, Role);
  void run_gather(Call&, const WeightColumns&, Part);
  template <class Tiles>
  void gather_tiles(Call&, const Tiles&, const WeightColumns&);
  void run_reduce(Call&, const WeightColumns&, Part);
  /// Runs every actor's role in the call of an op that sums. `given`: the partials, if the product
  /// is already computed; else null.
  template <class Tiles>
  void reduce_tiles(Call&, const Tiles&, const WeightColumns&, const TensorView* given);
  void run_product(Call&, const Problem&, const Operands&, const WeightColumns&);
  /// Allocates staging for collectives, once all ranks are in a call that needs staging. If a peer
  /// makes a different call, the error quotes `name` and `card`, which describe this rank's call.
  void stage_collectives(std::string_view name, std::string_view card);
  /// Words for error texts. A card (call.h) is the text that describes a rank's call to its peers.
  struct CollectiveWords {
    std::string_view name;  ///< name of the collective
    std::string call;       ///< the arguments in words; on the card, the plan follows
  };
  /// Runs a collective with checked arguments.
  void collect(const plan::CollectiveCall&, const plan::CollectivePlan&, const CollectiveWords&,
               const CollectiveArgs&);
  /// Runs one piece of a collective.
  void collect_piece(const plan::CollectiveCall&, const plan::CollectivePlan&, Index piece,
                     const CollectiveWords&, const CollectiveArgs&);

  comm::Group& group_;
  CommunicatorOptions options_;
  Machine machine_;
  std::shared_ptr<CheckedGroup> checked_;
  std::vector<std::unique_ptr<Link>> links_;  ///< the links to all ranks, by rank
  std::shared_ptr<comm::SymmetricMemory> control_;
  std::shared_ptr<comm::SymmetricMemory> slots_;
  std::int64_t slot_bytes_ = 0;
  std::int64_t flag_bytes_ = 0;
  Collectives collectives_;
  std::uint32_t epoch_ = 0;
  std::uint32_t unwatched_ = 0;  ///< calls so far that the checked mode does not see
  Room room_;
  std::vector<Packed> packed_;
  std::vector<WorkerState> workers_;
  WorkerPool pool_;
  CpuMoePasses moe_;
};

}  // namespace tilelace::cpu
