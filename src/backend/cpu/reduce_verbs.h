// SPDX-License-Identifier: Apache-2.0
// Verbs of gemm_rs and gemm_ar on a CPU rank.
#pragma once
#include "backend/cpu/call.h"
#include "backend/cpu/worker_state.h"
#include "schedule/gemm_reduce.h"
#include "tilelace/transport_table.h"

namespace tilelace::cpu {

class ReduceVerbs final : public CallVerbs {
 public:
  /// With `partials` the product is there already: a [m, n] matrix in the partials' type that
  /// takes the place of compute (the collective alone, and the unfused path's second half).
  ReduceVerbs(Call& call, Actor actor, const schedule::GemmReduce& s, WorkerState* state,
              const PackedWeight* weight, int tile_n, const TensorView* partials)
      : CallVerbs(call, actor),
        s_(s),
        state_(state),
        weight_(weight),
        tile_n_(tile_n),
        partials_(partials) {}

  void compute(const schedule::ReduceTile&);
  void reduce(const schedule::ReduceTile&);
  void store(const schedule::ReduceTile&);
  void partial(const schedule::ReduceTile&);
  void store_partial(const schedule::ReduceTile&, int peer);
  void store_result(const schedule::ReduceTile&, int peer);
  void park(const schedule::ReduceTile&);
  void unpark(const schedule::ReduceTile&);
  void send_partial(const schedule::ReduceTransfer&);
  void fetch_partial(const schedule::ReduceTransfer&);
  void send_result(const schedule::ReduceTransfer&);
  void fetch_result(const schedule::ReduceTransfer&);
  void deliver(const schedule::ReduceTransfer&);

 private:
  [[nodiscard]] Meaning meaning(Index flag) const override;
  [[nodiscard]] std::int64_t first_col(Index col) const { return col * tile_n_; }
  [[nodiscard]] std::int64_t cols(Index col) const;
  [[nodiscard]] float* accumulator(RowRange rows, Index col);
  [[nodiscard]] std::byte* outgoing(int rank, Index row) const;
  [[nodiscard]] std::byte* incoming(int rank, int child, int block, int owner, Index row) const;
  [[nodiscard]] std::byte* result(int rank, Index row) const;
  [[nodiscard]] Index first_out_row() const;
  [[nodiscard]] std::byte* out_row(Index row) const;
  /// The partials of a shard are sent from where they are, not copied into the outgoing area.
  [[nodiscard]] bool sends_in_place(int owner) const;
  /// Where rows of this rank's partials for `owner` go. Under push the peer's incoming slot itself,
  /// which all ranks of a host can write: the send then only takes its time on the wire.
  [[nodiscard]] std::byte* partial_row(const schedule::ReduceTile&) const;
  /// Own finished rows are sent from the user's tensor, others' from the result slot.
  [[nodiscard]] bool keeps_result() const { return !row_of(s_.transport).pushes(); }

  const schedule::GemmReduce& s_;
  WorkerState* state_;
  const PackedWeight* weight_;
  int tile_n_;
  const TensorView* partials_;
  Index accumulator_row_ = 0;  ///< the row that the accumulator starts with
};

}  // namespace tilelace::cpu
