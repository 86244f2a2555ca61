// SPDX-License-Identifier: Apache-2.0
// A GEMM by cuBLASLt and its collective by NCCL, on copies of the operands of a benchmark row.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/vendor/cublas.h"
#include "backend/cuda/vendor/nccl.h"
#include "gpu_times.h"
#include "operands.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {

constexpr std::array kBuffers{cuda::NcclBuffer::plain, cuda::NcclBuffer::registered,
                              cuda::NcclBuffer::window};

/// State that is made once and then used by the baselines of all benchmark rows.
struct BaselineContext {
  Communicator& member;
  const Workload& work;
  GpuTimes& times;
  std::unique_ptr<cuda::NcclGroup> nccl;  ///< null if no kind of NCCL buffer is to be timed
  std::vector<cuda::NcclBuffer> kinds;
  cudaStream_t stream = nullptr;
};

/// A GEMM by cuBLASLt, with all weights joined to one matrix, and its collective by NCCL. Matrices
/// are dense. If rows are split over the ranks, all shards are padded to the same number of rows.
class BlasProduct {
 public:
  BlasProduct(BaselineContext& context, const model::LayerGemm& gemm, std::int64_t m);

  /// Copies the weights and `operand`, the GEMM's input; skips a null `operand`.
  void lay(const RankWeights& weights, const TensorView* operand);
  /// Collective. Finds cuBLASLt's fastest algorithm by timing; the operands must be in place.
  void find_algorithm();
  void multiply(cuda::NcclBuffer kind, int i) { multiply(kind, i, algorithm_); }
  void collect(cuda::NcclBuffer kind, int i);
  /// Runs GEMM and collective one after the other.
  void unfused(cuda::NcclBuffer kind, int i);
  /// Overwrites the results of call 0, so that old results cannot be mistaken for new results.
  void clear(cuda::NcclBuffer kind);
  void deliver(cuda::NcclBuffer kind, const std::vector<GuardedMatrix>& outputs);

  [[nodiscard]] bool gathers() const { return row_of(gemm_.op).gathers; }
  /// Whether every rank has buffers of this kind.
  [[nodiscard]] bool has(cuda::NcclBuffer kind) const { return moved_[index_of(kind)] != nullptr; }
  /// Bytes that the collective moves from one rank to another.
  [[nodiscard]] std::size_t shard_bytes() const { return bytes_of(shard_rows_, moved_cols_); }
  [[nodiscard]] std::byte* own_shard(cuda::NcclBuffer kind, int i) const {
    return moved(kind, i) + static_cast<std::size_t>(context_.member.rank()) * shard_bytes();
  }
  /// The buffer that is not communicated: ag_gemm's result, or the operand of the other ops.
  [[nodiscard]] std::byte* kept(int i) const {
    return static_cast<std::byte*>(kept_->data()) + kept_turns_.at(i);
  }

 private:
  static std::size_t index_of(cuda::NcclBuffer kind) { return static_cast<std::size_t>(kind); }
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows * cols) * size_of(problem_.dtype);
  }
  /// The buffer that NCCL reads: the gathered operand or the partial sums. In memory, the
  /// collective's results follow after all copies of this buffer.
  [[nodiscard]] std::byte* moved(cuda::NcclBuffer kind, int i) const {
    return moved_[index_of(kind)] + moved_turns_.at(i);
  }
  [[nodiscard]] std::byte* result(cuda::NcclBuffer kind, int i) const {
    return moved_[index_of(kind)] + moved_turns_.bytes() + result_turns_.at(i);
  }
  [[nodiscard]] std::byte* weight(int i) const {
    return static_cast<std::byte*>(weight_->data()) + weight_turns_.at(i);
  }
  void multiply(cuda::NcclBuffer kind, int i, int algorithm);
  /// Copies the rows of each shard to the place of that shard in the padded matrix `to`.
  void lay_rows(std::byte* to, const TensorView& from);

  BaselineContext& context_;
  const model::LayerGemm& gemm_;
  std::int64_t m_, shard_rows_, moved_cols_;
  plan::GemmProblem problem_;
  Turns weight_turns_, kept_turns_, moved_turns_, result_turns_;
  std::optional<DeviceBuffer> weight_, kept_, plain_;
  std::vector<std::unique_ptr<cuda::NcclMemory>> others_;
  std::array<std::byte*, kBuffers.size()> moved_{};
  std::unique_ptr<cuda::CublasGemm> blas_;
  int algorithm_ = 0;
};

}  // namespace tilelace::cli
