// SPDX-License-Identifier: Apache-2.0
// A product and its collective as cuBLASLt and NCCL do them, on copies of a row's operands.
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

/// What all rows share.
struct BaselineContext {
  Communicator& member;
  const Workload& work;
  GpuTimes& times;
  std::unique_ptr<cuda::NcclGroup> nccl;  ///< where there is a kind of its buffers
  std::vector<cuda::NcclBuffer> kinds;
  cudaStream_t stream = nullptr;
};

/// A product by cuBLASLt, all weights in one, and its collective by NCCL: rows one behind the
/// other, filled up to a multiple of the ranks where they are cut.
class BlasProduct {
 public:
  BlasProduct(BaselineContext& context, const model::LayerGemm& gemm, std::int64_t m);

  /// Copies the weights, and the operand of the product where it is there.
  void lay(const RankWeights& weights, const TensorView* operand);
  /// Collective: with operands in place.
  void find_algorithm();
  void multiply(cuda::NcclBuffer kind, int i) { multiply(kind, i, algorithm_); }
  void collect(cuda::NcclBuffer kind, int i);
  /// One after the other.
  void unfused(cuda::NcclBuffer kind, int i);
  /// So that nothing is taken for a result that is not one.
  void clear(cuda::NcclBuffer kind);
  void deliver(cuda::NcclBuffer kind, const std::vector<GuardedMatrix>& outputs);

  [[nodiscard]] bool gathers() const { return row_of(gemm_.op).gathers; }
  /// Buffers of this kind are there on every rank.
  [[nodiscard]] bool has(cuda::NcclBuffer kind) const { return moved_[index_of(kind)] != nullptr; }
  /// What the collective takes from a rank for each peer, or from each for itself.
  [[nodiscard]] std::size_t shard_bytes() const { return bytes_of(shard_rows_, moved_cols_); }
  [[nodiscard]] std::byte* own_shard(cuda::NcclBuffer kind, int i) const {
    return moved(kind, i) + static_cast<std::size_t>(context_.member.rank()) * shard_bytes();
  }
  /// ag_gemm's result, the others' operand.
  [[nodiscard]] std::byte* kept(int i) const {
    return static_cast<std::byte*>(kept_->data()) + kept_turns_.at(i);
  }

 private:
  static std::size_t index_of(cuda::NcclBuffer kind) { return static_cast<std::size_t>(kind); }
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows * cols) * size_of(problem_.dtype);
  }
  /// The gathered operand, or partial sums; behind all of them, results.
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
  /// The operand's rows, each shard's at its place.
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
