// SPDX-License-Identifier: Apache-2.0
// Verbs of gemm_rs and gemm_ar on a CPU rank.
#pragma once
#include <vector>

#include "backend/cpu/call.h"
#include "backend/cpu/worker_state.h"
#include "schedule/gemm_reduce.h"
#include "tilelace/transport_table.h"

namespace tilelace::cpu {

class ReduceVerbs final : public CallVerbs {
 public:
  /// If `partials` is given, it is the finished product, which `compute` only reads: an [m, n]
  /// matrix of the partials' type. Used for the collective alone, and for the second half of the
  /// unfused path.
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
  /// Whether partials of the owner's shard are sent directly from partials_, without a copy.
  [[nodiscard]] bool sends_in_place(int owner) const;
  [[nodiscard]] bool maps(int peer) const { return peer == s_.rank || call_.link(peer).row().maps; }
  /// The address at the peer where this rank's partial tile goes.
  [[nodiscard]] std::byte* incoming_tile(int peer, const schedule::ReduceTile&) const;
  /// Rounds the accumulator to the type of partials and stores it in `rows`.
  void round_to(std::byte* rows, std::int64_t row_bytes, const schedule::ReduceTile&);
  /// Sends the rounded accumulator to a peer whose memory is not mapped.
  void send_rounded(int peer, std::byte* to, const schedule::ReduceTile&);
  /// Bytes of a row of results.
  [[nodiscard]] Index result_bytes() const {
    return call_.problem->n[0] * static_cast<Index>(size_of(call_.problem->dtype));
  }
  /// Whether own finished rows also go to the slot, for peers to fetch or for workers to send.
  [[nodiscard]] bool keeps_result() const { return !row_of(s_.transport).pushes(); }

  const schedule::GemmReduce& s_;
  WorkerState* state_;
  const PackedWeight* weight_;
  int tile_n_;
  const TensorView* partials_;
  std::vector<std::byte> rounded_;  ///< a tile for a peer whose memory is not mapped
  Index accumulator_row_ = 0;       ///< the product's row at which the accumulator begins
};

}  // namespace tilelace::cpu
