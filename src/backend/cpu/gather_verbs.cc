// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gather_verbs.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/tile_work.h"
#include "core/points.h"
#include "plan/base/problem.h"
#include "tilelace/op_table.h"

namespace tilelace::cpu {

using schedule::GatherTile;
using schedule::GatherTransfer;

CallVerbs::Meaning GatherVerbs::meaning(Index flag) const {
  const Index chunks = s_.max_chunks();
  const int source = static_cast<int>(flag / chunks % s_.ranks());
  const char* what = flag / chunks < s_.ranks() ? "" : "offer of ";
  return {s_.route.parent(source, s_.rank),
          fmt::format("{}chunk {} of shard {}", what, flag % chunks, source)};
}

std::int64_t GatherVerbs::row_bytes() const { return plan::input_row_bytes(*call_.problem); }

std::byte* GatherVerbs::slot_row(int rank, Index row) const {
  return call_.slot.data(rank) + call_.layout.gathered + row * call_.layout.gathered_row_bytes;
}

GatherVerbs::Source GatherVerbs::source_row(int source, Index row) const {
  if (source != s_.rank) return {slot_row(s_.rank, row), call_.layout.gathered_row_bytes};
  const TensorView& a = call_.operands->input;
  const std::int64_t stride = a.stride * static_cast<std::int64_t>(size_of(a.dtype));
  return {static_cast<const std::byte*>(a.data) + (row - s_.split.begin(source)) * stride, stride};
}

void GatherVerbs::stage(const GatherTransfer& t) {
  const Source from = source_row(s_.rank, t.rows.begin);
  move_rows(slot_row(s_.rank, t.rows.begin), call_.layout.gathered_row_bytes, from.data,
            from.stride_bytes, t.rows.size(), row_bytes(), false);
}

void GatherVerbs::push(const GatherTransfer& t) {
  before_peer_memory();
  point("copy.before_data", "compute.after_wait");
  const Source from = source_row(t.source, t.rows.begin);
  move_rows(slot_row(t.peer, t.rows.begin), call_.layout.gathered_row_bytes, from.data,
            from.stride_bytes, t.rows.size(), row_bytes(), true);
}

void GatherVerbs::pull(const GatherTransfer& t) {
  before_peer_memory();
  const std::int64_t stride = call_.layout.gathered_row_bytes;
  move_rows(slot_row(s_.rank, t.rows.begin), stride, slot_row(t.peer, t.rows.begin), stride,
            t.rows.size(), row_bytes(), true);
}

void GatherVerbs::deliver(const GatherTransfer& t) {
  const Source from = source_row(t.source, t.rows.begin);
  const TensorView& to = call_.operands->gathered;
  const std::int64_t stride = to.stride * static_cast<std::int64_t>(size_of(to.dtype));
  move_rows(static_cast<std::byte*>(to.data) + t.rows.begin * stride, stride, from.data,
            from.stride_bytes, t.rows.size(), row_bytes(), false);
}

GatherVerbs::Columns GatherVerbs::columns_at(std::size_t weight, Index panel) const {
  const std::int64_t first = panel * call_.plan->tile_n;
  return {first, std::min<std::int64_t>(call_.plan->tile_n, call_.problem->n[weight] - first)};
}

void GatherVerbs::work(const GatherTile& t, std::size_t weight, Index panel, float* acc) {
  const OpRow& op = row_of(call_.problem->op);
  const auto [first, cols] = columns_at(weight, panel);
  const DType dtype = call_.problem->dtype;
  const auto element_bytes = static_cast<std::int64_t>(size_of(dtype));
  for (int q = 0; q < s_.ranks(); ++q) {
    if (t.source >= 0 && t.source != q) continue;
    const RowRange rows = schedule::intersect(t.rows, s_.split.shard(q));
    if (rows.size() == 0) continue;
    const Source from = source_row(q, rows.begin);
    const std::int64_t stride = from.stride_bytes / element_bytes;
    float* to = acc + (rows.begin - t.rows.begin) * cols;
    if (op.multiplies())
      state_->gemm.run(*columns_->weights[weight], panel, from.data, stride, rows.size(), to, cols);
    else
      load_tile(to, cols, element(from.data, dtype, first), dtype, stride, rows.size(), cols);
  }
  // Of a sum this is a rank's part only.
  if (const TileWork more = tile_work_of(op.op); more != nullptr && op.gathers)
    more(acc, t.rows.size() * cols);
}

void GatherVerbs::compute(const GatherTile& t) {
  points::pass("compute.before_product", call_.rank());
  const auto [weight, panel] = columns_->place(t.col);
  work(t, weight, panel, state_->accumulator.data());
  if (columns_->paired) work(t, weight + 1, panel, state_->second.data());
}

void GatherVerbs::store(const GatherTile& t) {
  points::pass("compute.before_store", call_.rank());
  const auto [weight, panel] = columns_->place(t.col);
  const TensorView& out = call_.operands->out[weight];
  const Columns at = columns_at(weight, panel);
  const auto bias_at = [&](std::size_t i) -> const void* {
    if (call_.operands->bias.empty()) return nullptr;
    return element(call_.operands->bias[i].data, out.dtype, at.first);
  };
  const Epilogue epilogue{call_.problem->activation, out.dtype, bias_at(weight),
                          columns_->paired ? bias_at(weight + 1) : nullptr};
  store_tile(epilogue, state_->accumulator.data(), state_->second.data(), at.count, t.rows.size(),
             at.count, element(out.data, out.dtype, t.rows.begin * out.stride + at.first),
             out.stride);
}

}  // namespace tilelace::cpu
