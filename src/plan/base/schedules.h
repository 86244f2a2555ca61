// SPDX-License-Identifier: Apache-2.0
// Turns a Problem and a Plan into the schedule of one rank and the layout of its staging in a slot.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/ag_gemm.h"
#include "schedule/gemm_reduce.h"
#include "tilelace/op_table.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

using schedule::Index;

/// The first row of each shard, then m (ranks + 1 numbers); empty for an even split. Schedules keep
/// a pointer to the result.
std::vector<Index> borders_of(const Problem&);

/// The rows of each shard; `borders` must outlive the result.
schedule::RowSplit split_of(const Problem&, const std::vector<Index>& borders);

/// How many tiles of `rows` rows cover the rows of all shards, if no tile spans two shards.
Index tile_rows_by_shard(const schedule::RowSplit&, Index rows);

/// Number of tiles side by side along the columns of all outputs (swiglu: gate and up share tiles).
Index column_tiles(const Problem&, int tile_n);

/// `borders` must outlive the schedule.
schedule::AgGemm gather_schedule(const Problem&, const Plan&, int rank,
                                 const std::vector<Index>& borders);
schedule::GemmReduce reduce_schedule(const Problem&, const Plan&, int rank,
                                     const std::vector<Index>& borders);
/// Calls f with the schedule of the problem's op. `borders` must outlive the schedule.
template <class F>
decltype(auto) with_schedule(const Problem& p, const Plan& plan, int rank,
                             const std::vector<Index>& borders, const F& f) {
  return row_of(p.op).gathers ? f(gather_schedule(p, plan, rank, borders))
                              : f(reduce_schedule(p, plan, rank, borders));
}

/// The layout of a slot: a flag area, then a data area with the op's buffers. The communicator, not
/// the call, fixes the border between the two areas, so that data of one call can never be read as
/// a flag by another. Offsets are in bytes from the beginning of the data area.
struct SlotLayout {
  std::int64_t num_flags = 0;
  std::int64_t gathered = 0, gathered_row_bytes = 0;               ///< gathered: [m, k] (ag_gemm)
  std::int64_t outgoing = 0, incoming = 0, partial_row_bytes = 0;  ///< outgoing: [m, n]
  std::int64_t result = 0, result_row_bytes = 0;                   ///< result: [m, n] (gemm_ar)
  std::int64_t data_bytes = 0;
  std::string formula;

  bool operator==(const SlotLayout&) const = default;
  [[nodiscard]] std::int64_t flag_bytes() const { return (num_flags * 4 + 63) / 64 * 64; }
};

SlotLayout slot_layout(const Problem&, const Plan&);

}  // namespace tilelace::plan
