// SPDX-License-Identifier: Apache-2.0
// Verbs of ag_gemm on a CPU rank.
#pragma once
#include "backend/cpu/call.h"
#include "backend/cpu/worker_state.h"
#include "schedule/ag_gemm.h"

namespace tilelace::cpu {

class GatherVerbs final : public CallVerbs {
 public:
  /// `state` and `columns` may be null for the actor that copies.
  GatherVerbs(Call& call, Actor actor, const schedule::AgGemm& s, WorkerState* state,
              const WeightColumns* columns)
      : CallVerbs(call, actor), s_(s), state_(state), columns_(columns) {}

  void stage(const schedule::GatherTransfer&);
  void push(const schedule::GatherTransfer&);
  void pull(const schedule::GatherTransfer&);
  void deliver(const schedule::GatherTransfer&);
  void compute(const schedule::GatherTile&);
  void store(const schedule::GatherTile&);

 private:
  [[nodiscard]] Meaning meaning(Index flag) const override;
  [[nodiscard]] std::byte* slot_row(int rank, Index row) const;
  /// Where rows of the gathered operand are: own rows in the input, peers' rows in the slot.
  struct Source {
    const std::byte* data;
    std::int64_t stride_bytes;
  };
  [[nodiscard]] Source source_row(int source, Index row) const;
  [[nodiscard]] std::int64_t row_bytes() const;
  /// The columns of a weight's result that one panel of the weight covers.
  struct Columns {
    std::int64_t first, count;
  };
  [[nodiscard]] Columns columns_at(std::size_t weight, Index panel) const;
  /// Applies the op's TileWork to a tile, before bias and activation.
  void work(const schedule::GatherTile&, std::size_t weight, Index panel, float* acc);

  const schedule::AgGemm& s_;
  WorkerState* state_;
  const WeightColumns* columns_;
};

}  // namespace tilelace::cpu
