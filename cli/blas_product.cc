// SPDX-License-Identifier: Apache-2.0
#include "blas_product.h"

#include "backend/cuda/base/cuda_check.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

using cuda::check;
using cuda::NcclBuffer;

constexpr int kAlgorithms = 16;  ///< of cuBLASLt that are tried

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
               std::size_t width, std::int64_t rows, cudaStream_t stream) {
  if (rows == 0) return;
  check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, static_cast<std::size_t>(rows),
                          cudaMemcpyDefault, stream),
        "a copy of rows");
}

}  // namespace

BlasProduct::BlasProduct(BaselineContext& context, const model::LayerGemm& gemm, std::int64_t m)
    : context_(context),
      gemm_(gemm),
      m_(m),
      shard_rows_((m + gemm.tp - 1) / gemm.tp),
      moved_cols_(row_of(gemm.op).gathers ? gemm.k : gemm.n[0]),
      problem_{row_of(gemm.op).shares ? m : shard_rows_ * gemm.tp, sum_of(gemm.n), gemm.k,
               context.work.dtype},
      weight_turns_(bytes_of(problem_.n, problem_.k)),
      kept_turns_(bytes_of(problem_.m, gathers() ? problem_.n : problem_.k)),
      moved_turns_(bytes_of(problem_.m, moved_cols_)),
      result_turns_(gathers() ? 0
                              : bytes_of(row_of(gemm.op).shares ? m : shard_rows_, moved_cols_)) {
  Communicator& member = context.member;
  const std::size_t bytes = moved_turns_.bytes() + result_turns_.bytes();
  weight_.emplace(member, weight_turns_.bytes());
  kept_.emplace(member, kept_turns_.bytes());
  plain_.emplace(member, bytes);
  moved_[0] = static_cast<std::byte*>(plain_->data());
  for (const NcclBuffer kind : context.kinds) {
    if (kind == NcclBuffer::plain) continue;
    auto memory = context.nccl->allocate(bytes, kind);
    if (most_of(context.member, memory->kind() == kind ? 0 : 1) > 0) continue;
    moved_[index_of(kind)] = memory->data();
    others_.push_back(std::move(memory));
  }
  for (std::byte* const moved : moved_)
    if (moved != nullptr) check(cudaMemsetAsync(moved, 0, bytes, context.stream), "clearing");
  check(cudaMemsetAsync(kept_->data(), 0, kept_turns_.bytes(), context.stream), "clearing");
}

void BlasProduct::lay_rows(std::byte* to, const TensorView& from) {
  const auto element = size_of(from.dtype);
  const std::size_t width = bytes_of(1, from.cols);
  const int shards = row_of(gemm_.op).shares ? 1 : gemm_.tp;
  for (int r = 0; r < shards; ++r) {
    const model::Slice rows = row_shard(m_, shards, r);
    copy_rows(to + bytes_of(r * shard_rows_, from.cols), width,
              static_cast<const std::byte*>(from.data) +
                  static_cast<std::size_t>(rows.begin * from.stride) * element,
              static_cast<std::size_t>(from.stride) * element, width, rows.size(), context_.stream);
  }
}

void BlasProduct::lay(const RankWeights& weights, const TensorView* operand) {
  for (int i = 0; i < weight_turns_.count; ++i) {
    std::byte* to = weight(i);
    for (const TensorView& w : weights.weight_views) {
      copy_rows(to, bytes_of(1, w.cols), w.data, bytes_of(1, w.stride), bytes_of(1, w.cols), w.rows,
                context_.stream);
      to += bytes_of(w.rows, w.cols);
    }
  }
  if (operand == nullptr) return;
  for (const NcclBuffer kind : kBuffers)
    for (int i = 0; gathers() && has(kind) && i < moved_turns_.count; ++i)
      lay_rows(moved(kind, i), *operand);
  for (int i = 0; !gathers() && i < kept_turns_.count; ++i) lay_rows(kept(i), *operand);
}

void BlasProduct::find_algorithm() {
  blas_ = std::make_unique<cuda::CublasGemm>(problem_, kAlgorithms);
  const auto count = static_cast<int>(-most_of(context_.member, -blas_->algorithms()));
  std::vector<GpuCall> calls;
  for (int a = 0; a < count; ++a)
    calls.emplace_back([this, a](int i) { multiply(NcclBuffer::plain, i, a); });
  const std::vector<double> not_predicted(calls.size(), 0.0);
  algorithm_ = static_cast<int>(context_.times.fastest(calls, not_predicted).times.front().index);
}

void BlasProduct::multiply(NcclBuffer kind, int i, int algorithm) {
  cuda::GemmTensors tensors;
  tensors.a = gathers() ? moved(kind, i) : kept(i);
  tensors.weight = weight(i);
  tensors.out = gathers() ? kept(i) : moved(kind, i);
  blas_->launch(tensors, algorithm, context_.stream);
}

void BlasProduct::collect(NcclBuffer kind, int i) {
  cuda::NcclGroup& nccl = *context_.nccl;
  const auto shard = static_cast<std::size_t>(shard_rows_ * moved_cols_);
  const DType dtype = problem_.dtype;
  if (gathers())
    nccl.all_gather(own_shard(kind, i), moved(kind, i), shard, dtype, context_.stream);
  else if (row_of(gemm_.op).scatters())
    nccl.reduce_scatter(moved(kind, i), result(kind, i), shard, dtype, context_.stream);
  else
    nccl.all_reduce(moved(kind, i), result(kind, i), static_cast<std::size_t>(m_ * moved_cols_),
                    dtype, context_.stream);
}

void BlasProduct::unfused(NcclBuffer kind, int i) {
  if (gathers()) collect(kind, i);
  multiply(kind, i);
  if (!gathers()) collect(kind, i);
}

void BlasProduct::clear(NcclBuffer kind) {
  const auto clear = [&](std::byte* from, std::size_t bytes, int value) {
    check(cudaMemsetAsync(from, value, bytes, context_.stream), "clearing");
  };
  if (!gathers()) {
    clear(moved(kind, 0), moved_turns_.pitch, 0);
    return clear(result(kind, 0), result_turns_.pitch, 0xff);
  }
  // All but the own shard, which is what is gathered.
  std::byte* const all = moved(kind, 0);
  std::byte* const own = own_shard(kind, 0);
  std::byte* const behind = own + shard_bytes();
  clear(all, static_cast<std::size_t>(own - all), 0);
  clear(behind, static_cast<std::size_t>(all + bytes_of(problem_.m, moved_cols_) - behind), 0);
  clear(kept(0), kept_turns_.pitch, 0xff);
}

void BlasProduct::deliver(NcclBuffer kind, const std::vector<GuardedMatrix>& outputs) {
  const std::byte* from = gathers() ? kept(0) : result(kind, 0);
  for (const GuardedMatrix& output : outputs) {
    const TensorView to = output.call_view();
    const std::size_t pitch = bytes_of(1, to.stride);
    const std::size_t width = bytes_of(1, problem_.n);
    const auto copy = [&](std::int64_t row, std::int64_t at, std::int64_t rows) {
      copy_rows(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(row) * pitch, pitch,
                from + static_cast<std::size_t>(at) * width, width, bytes_of(1, to.cols), rows,
                context_.stream);
    };
    for (int r = 0; gathers() && r < gemm_.tp; ++r) {
      const model::Slice shard = row_shard(m_, gemm_.tp, r);
      copy(shard.begin, r * shard_rows_, shard.size());
    }
    if (!gathers()) copy(0, 0, to.rows);
    from += bytes_of(1, to.cols);
  }
}

}  // namespace tilelace::cli
