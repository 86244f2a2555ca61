// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/reduce_verbs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/gemm/convert.h"
#include "core/points.h"
#include "tilelace/transport_table.h"

namespace tilelace::cpu {

using schedule::ReduceTile;
using schedule::ReduceTransfer;

namespace {

std::int64_t stride_bytes(const TensorView& t) {
  return t.stride * static_cast<std::int64_t>(size_of(t.dtype));
}

}  // namespace

CallVerbs::Meaning ReduceVerbs::meaning(Index flag) const {
  if (s_.numbered()) {
    const auto [source, tile] = std::pair(flag / s_.max_tiles(), flag % s_.max_tiles());
    return {static_cast<int>(source), fmt::format("partial tile {} of shard {}", tile, s_.rank)};
  }
  const auto split = [&](Index at, Index unit) {
    const Index shard = at / unit;
    return std::tuple{static_cast<int>(shard / s_.ranks() / s_.blocks),
                      static_cast<int>(shard / s_.ranks() % s_.blocks),
                      static_cast<int>(shard % s_.ranks()), at % unit};
  };
  if (flag < s_.partial(0, 0, 0, 0)) {
    const auto [p, b, q, t] = split(flag, s_.max_tiles());
    return {p, fmt::format("tile {} of shard {} block {}", t, q, b)};
  }
  if (flag < s_.result(0, 0, 0)) {
    const auto [p, b, q, c] = split(flag - s_.partial(0, 0, 0, 0), s_.max_chunks());
    return {p, fmt::format("partial chunk {} of shard {} block {}", c, q, b)};
  }
  const auto [none, b, q, c] = split(flag - s_.result(0, 0, 0), s_.max_chunks());
  return {s_.route.parent(q, s_.rank),
          fmt::format("result chunk {} of shard {} block {}", c, q, b)};
}

std::int64_t ReduceVerbs::cols(Index col) const {
  return std::min<std::int64_t>(tile_n_, call_.problem->n[0] - first_col(col));
}

float* ReduceVerbs::accumulator(RowRange rows, Index col) {
  return state_->accumulator.data() + (rows.begin - accumulator_row_) * cols(col);
}

std::byte* ReduceVerbs::outgoing(int rank, Index row) const {
  return call_.slot.data(rank) + call_.layout.outgoing + row * call_.layout.partial_row_bytes;
}

std::byte* ReduceVerbs::incoming(int rank, int child, int block, int owner, Index row) const {
  schedule::GemmReduce at = s_;
  at.rank = rank;  // where rows stand is the receiver's to say
  return call_.slot.data(rank) + call_.layout.incoming +
         at.incoming_row(child, block, owner, row) * call_.layout.partial_row_bytes;
}

std::byte* ReduceVerbs::result(int rank, Index row) const {
  return call_.slot.data(rank) + call_.layout.result + row * call_.layout.result_row_bytes;
}

Index ReduceVerbs::first_out_row() const { return s_.all_reduce ? 0 : s_.split.begin(s_.rank); }

std::byte* ReduceVerbs::out_row(Index row) const {
  const TensorView& out = call_.operands->out[0];
  return static_cast<std::byte*>(out.data) + (row - first_out_row()) * stride_bytes(out);
}

bool ReduceVerbs::sends_in_place(int owner) const {
  return partials_ != nullptr && row_of(s_.transport).pushes() &&
         s_.route.num_children(owner, s_.rank) == 0 && owner != s_.rank;
}

void ReduceVerbs::compute(const ReduceTile& t) {
  points::pass("compute.before_product", call_.rank());
  accumulator_row_ = t.rows.begin;
  if (partials_ == nullptr) {
    const TensorView& x = call_.operands->input;
    state_->gemm.run(*weight_, t.col, element(x.data, x.dtype, t.rows.begin * x.stride), x.stride,
                     t.rows.size(), state_->accumulator.data(), cols(t.col));
    return;
  }
  if (t.owner >= 0 && sends_in_place(t.owner)) return;
  load_tile(state_->accumulator.data(), cols(t.col),
            element(partials_->data, partials_->dtype,
                    t.rows.begin * partials_->stride + first_col(t.col)),
            partials_->dtype, partials_->stride, t.rows.size(), cols(t.col));
}

void ReduceVerbs::reduce(const ReduceTile& t) {
  const std::int64_t width = cols(t.col);
  float* sum = state_->second.data();
  bool first = true;
  for (int p = 0; p < s_.ranks(); ++p) {
    const void* term = nullptr;
    DType dtype = call_.plan->partials;
    std::int64_t stride =
        call_.layout.partial_row_bytes / static_cast<std::int64_t>(size_of(dtype));
    if (p == s_.rank) {
      term = accumulator(t.rows, t.col);
      dtype = kAccumulator;
      stride = width;
    } else if (s_.route.is_child(t.owner, s_.rank, p)) {
      term = element(incoming(s_.rank, p, t.block, t.owner, t.rows.begin), dtype, first_col(t.col));
    } else {
      continue;
    }
    (first ? load_tile : add_tile)(sum, width, term, dtype, stride, t.rows.size(), width);
    first = false;
  }
  std::swap(state_->accumulator, state_->second);
  accumulator_row_ = t.rows.begin;
}

void ReduceVerbs::store(const ReduceTile& t) {
  points::pass("compute.before_store", call_.rank());
  const TensorView& out = call_.operands->out[0];
  const std::int64_t width = cols(t.col);
  const void* bias = call_.operands->bias.empty()
                         ? nullptr
                         : element(call_.operands->bias[0].data, out.dtype, first_col(t.col));
  std::byte* at = out_row(t.rows.begin) + first_col(t.col) * static_cast<Index>(size_of(out.dtype));
  Epilogue epilogue{call_.problem->activation, out.dtype, bias};
  if (const TensorView& residual = call_.operands->residual; residual) {
    const Index row = t.rows.begin - first_out_row();
    epilogue.residual = element(residual.data, out.dtype, row * residual.stride + first_col(t.col));
    epilogue.ldresidual = residual.stride;
  }
  store_tile(epilogue, accumulator(t.rows, t.col), nullptr, width, t.rows.size(), width, at,
             out.stride);
  if (!s_.all_reduce || !keeps_result()) return;
  const auto element_bytes = static_cast<Index>(size_of(out.dtype));
  copy_rows({result(s_.rank, t.rows.begin) + first_col(t.col) * element_bytes,
             call_.layout.result_row_bytes, at, stride_bytes(out), t.rows.size(),
             width * element_bytes});
}

void ReduceVerbs::round_to(std::byte* rows, std::int64_t row_bytes, const ReduceTile& t) {
  const DType dtype = call_.plan->partials;
  const std::int64_t width = cols(t.col);
  round_tile(accumulator(t.rows, t.col), width, t.rows.size(), width, rows, dtype,
             row_bytes / static_cast<std::int64_t>(size_of(dtype)));
}

void ReduceVerbs::send_rounded(int peer, std::byte* to, const ReduceTile& t) {
  const std::int64_t bytes = cols(t.col) * static_cast<std::int64_t>(size_of(call_.plan->partials));
  rounded_.resize(static_cast<std::size_t>(t.rows.size() * bytes));
  round_to(rounded_.data(), bytes, t);
  move_rows(peer,
            {to, call_.layout.partial_row_bytes, rounded_.data(), bytes, t.rows.size(), bytes});
}

std::byte* ReduceVerbs::incoming_tile(int peer, const ReduceTile& t) const {
  const auto column = first_col(t.col) * static_cast<Index>(size_of(call_.plan->partials));
  return incoming(peer, s_.rank, t.block, t.owner, t.rows.begin) + column;
}

void ReduceVerbs::partial(const ReduceTile& t) {
  if (sends_in_place(t.owner)) return;
  before_peer_memory();
  if (!row_of(s_.transport).pushes()) {
    std::byte* const row = outgoing(s_.rank, t.rows.begin);
    const auto column = first_col(t.col) * static_cast<Index>(size_of(call_.plan->partials));
    return round_to(row + column, call_.layout.partial_row_bytes, t);
  }
  // The peer's slot itself, where it is mapped: the send then only takes its time on the link.
  const int parent = s_.route.parent(t.owner, s_.rank);
  std::byte* const to = incoming_tile(parent, t);
  if (!maps(parent)) return send_rounded(parent, to, t);
  round_to(to, call_.layout.partial_row_bytes, t);
}

void ReduceVerbs::store_partial(const ReduceTile& t, int peer) {
  before_peer_memory();
  std::byte* const to = incoming_tile(peer, t);
  if (!maps(peer)) return send_rounded(peer, to, t);
  const auto element_bytes = static_cast<std::int64_t>(size_of(call_.plan->partials));
  store_over(peer, t.rows.size() * cols(t.col) * element_bytes,
             [&] { round_to(to, call_.layout.partial_row_bytes, t); });
}

void ReduceVerbs::store_result(const ReduceTile& t, int peer) {
  before_peer_memory();
  const auto element_bytes = static_cast<Index>(size_of(call_.problem->dtype));
  const Index at = first_col(t.col) * element_bytes;
  move_rows(peer, {result(peer, t.rows.begin) + at, call_.layout.result_row_bytes,
                   result(s_.rank, t.rows.begin) + at, call_.layout.result_row_bytes, t.rows.size(),
                   cols(t.col) * element_bytes});
}

void ReduceVerbs::park(const ReduceTile& t) {
  const float* from = accumulator(t.rows, t.col);
  const bool first_band = t.index < s_.cols;
  state_->parked.at((first_band ? 0 : s_.cols) + t.col)
      .assign(from, from + t.rows.size() * cols(t.col));
}

void ReduceVerbs::unpark(const ReduceTile& t) {
  const bool first_band = t.index < s_.cols;
  const auto& kept = state_->parked.at((first_band ? 0 : s_.cols) + t.col);
  std::copy(kept.begin(), kept.end(), state_->accumulator.begin());
  accumulator_row_ = t.rows.begin;
}

void ReduceVerbs::send_partial(const ReduceTransfer& t) {
  before_peer_memory();
  point("copy.before_data", "compute.after_wait");
  const Index width = call_.problem->n[0] * static_cast<Index>(size_of(call_.plan->partials));
  if (!sends_in_place(t.owner)) {
    if (maps(t.peer)) store_over(t.peer, t.rows.size() * width, [] {});
    return;
  }
  const std::int64_t stride = stride_bytes(*partials_);
  move_rows(t.peer, {incoming(t.peer, s_.rank, t.block, t.owner, t.rows.begin),
                     call_.layout.partial_row_bytes,
                     static_cast<const std::byte*>(partials_->data) + t.rows.begin * stride, stride,
                     t.rows.size(), width});
}

void ReduceVerbs::fetch_partial(const ReduceTransfer& t) {
  before_peer_memory();
  const std::int64_t stride = call_.layout.partial_row_bytes;
  move_rows(t.peer, {incoming(s_.rank, t.peer, t.block, t.owner, t.rows.begin), stride,
                     outgoing(t.peer, t.rows.begin), stride, t.rows.size(),
                     call_.problem->n[0] * static_cast<Index>(size_of(call_.plan->partials))});
}

void ReduceVerbs::send_result(const ReduceTransfer& t) {
  before_peer_memory();
  point("copy.before_data", "compute.after_wait");
  const std::int64_t stride = call_.layout.result_row_bytes;
  const bool own = t.owner == s_.rank;
  move_rows(t.peer,
            {result(t.peer, t.rows.begin), stride,
             own ? out_row(t.rows.begin) : result(s_.rank, t.rows.begin),
             own ? stride_bytes(call_.operands->out[0]) : stride, t.rows.size(), result_bytes()});
}

void ReduceVerbs::fetch_result(const ReduceTransfer& t) {
  before_peer_memory();
  const std::int64_t stride = call_.layout.result_row_bytes;
  move_rows(t.peer, {result(s_.rank, t.rows.begin), stride, result(t.peer, t.rows.begin), stride,
                     t.rows.size(), result_bytes()});
}

void ReduceVerbs::deliver(const ReduceTransfer& t) {
  copy_rows({out_row(t.rows.begin), stride_bytes(call_.operands->out[0]),
             result(s_.rank, t.rows.begin), call_.layout.result_row_bytes, t.rows.size(),
             result_bytes()});
}

}  // namespace tilelace::cpu
