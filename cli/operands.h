// SPDX-License-Identifier: Apache-2.0
// One rank's tensors of one product, and the calls on them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job.h"
#include "row.h"
#include "tilelace/ops.h"

namespace tilelace::cli {

/// Rows [begin, end) of the m rows that belong to this rank: even, remainder first.
model::Slice row_shard(std::int64_t m, int ranks, int rank);

/// The weights of one job, either of the model or small integers (design: exact conformance).
struct RankWeights {
  std::vector<model::Matrix> weights, biases;
  std::vector<TensorView> weight_views, bias_views;
  std::vector<DeviceBuffer> copies;  ///< on the GPU, weights then biases
};
/// Where a rank on a GPU has its tensors; null for ranks whose tensors are the host's.
struct GpuPlace {
  Communicator* member = nullptr;
  void* stream = nullptr;
};
/// Copies the weights to the GPU; the views are then of the copies.
void move_to_gpu(RankWeights& weights, const GpuPlace& place);

RankWeights model_weights(const Workload& work, const Job& job, int rank);
RankWeights integer_weights(const Workload& work, const Job& job, int rank);

/// A value of the integer operands: -1, 0 or 1, by its place in the unsharded matrix.
int integer_weight(std::size_t index, std::int64_t row, std::int64_t col);
/// The non-zero columns of row `row` of the unsharded operand, in part `part` of `parts` equal
/// ones.
struct Term {
  std::int64_t col = 0;
  int sign = 1;
};
std::vector<Term> integer_row(const model::LayerGemm& gemm, std::int64_t row, int part);
/// Parts that the operand's columns are cut into: the ranks where k is split, else one.
int integer_parts(const model::LayerGemm& gemm);

/// A matrix with a row to spare; the spare row and the padding of all rows show stray writes.
class GuardedMatrix {
 public:
  GuardedMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const GpuPlace* place = nullptr);
  [[nodiscard]] const TensorView& view() const { return view_; }
  /// What calls are given: the copy on the GPU, if there is one.
  [[nodiscard]] const TensorView& call_view() const { return call_view_; }
  /// Fills everything with the bit pattern of NaNs.
  void poison();
  [[nodiscard]] bool intact() const;
  /// Brings what is on the GPU to the host.
  void fetch();

 private:
  [[nodiscard]] std::size_t bytes() const;

  model::Matrix memory_;
  TensorView view_, call_view_;
  std::optional<DeviceBuffer> copy_;
};

/// What one rank passes to the calls of one size.
class CallTensors {
 public:
  /// `place` must outlive it.
  CallTensors(const Workload& work, const Job& job, int rank, std::int64_t m,
              const GpuPlace* place = nullptr);

  /// On GPUs: the input as it is. Filling it does so too.
  void send_input();
  /// Dense random data, or the integers.
  void fill_random();
  void fill_integers();
  void poison();
  [[nodiscard]] bool intact() const;

  /// The op itself. Plain: without bias and activation. Gathered: ag_gemm delivers it.
  void call(Communicator&, const RankWeights&, const PlanOptions&, bool plain, bool gathered);
  /// The same by a plan, which is one of the problem's.
  void call(Communicator&, const RankWeights&, const Plan&);
  void call_gemm(Communicator&, const RankWeights&);
  void call_collective(Communicator&);
  /// On GPUs: waits for the calls and brings their results to the host.
  void settle();

  [[nodiscard]] const std::vector<GuardedMatrix>& outputs() const { return out_; }
  [[nodiscard]] std::size_t outputs_of(bool plain) const;
  [[nodiscard]] const TensorView& gathered() const { return gathered_.view(); }
  /// The rows of the unsharded result that this rank's outputs hold.
  [[nodiscard]] model::Slice out_rows() const { return out_rows_; }
  [[nodiscard]] std::int64_t m() const { return m_; }
  /// Row `row` of the unsharded random operand into to[0], a [1, full_k] view.
  void random_row(std::int64_t row, const TensorView& to) const;

 private:
  [[nodiscard]] void* stream() const { return place_ == nullptr ? nullptr : place_->stream; }
  [[nodiscard]] bool gathers() const { return gemm_.op == Op::ag_gemm; }
  AgGemmArgs gather_args(const RankWeights&, const TensorView& a, bool plain, bool gathered);
  GemmReduceArgs reduce_args(const RankWeights&, bool plain) const;

  const model::LayerGemm& gemm_;
  std::int64_t m_;
  model::Slice rows_, cols_, out_rows_;  ///< of the unsharded operand, operand and result
  std::uint64_t key_;
  const GpuPlace* place_;
  model::Matrix input_;
  std::optional<DeviceBuffer> input_copy_;
  TensorView call_input_;
  std::vector<GuardedMatrix> out_;
  std::vector<TensorView> out_views_;
  GuardedMatrix gathered_;  ///< ag_gemm [m, k]
  GuardedMatrix partial_;   ///< reductions [m, n]
};

}  // namespace tilelace::cli
