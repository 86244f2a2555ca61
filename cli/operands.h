// SPDX-License-Identifier: Apache-2.0
// One rank's tensors of one product, and the calls on them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job.h"
#include "row.h"
#include "tilelace/op_table.h"
#include "tilelace/ops.h"

namespace tilelace::cli {

/// The rows [begin, end) of m that belong to this rank: split evenly, remainder on the first ranks.
model::Slice row_shard(std::int64_t m, int ranks, int rank);

/// Copies of a tensor. The calls of a graph on a GPU use them in turn, so that operands are not in
/// L2. There are enough copies to exceed L2, but at most one per call of the graph.
struct Turns {
  Turns() = default;
  explicit Turns(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const { return pitch * static_cast<std::size_t>(count); }
  /// The byte offset of the i-th call's copy.
  [[nodiscard]] std::size_t at(int i) const { return static_cast<std::size_t>(i % count) * pitch; }

  std::size_t pitch = 0;
  int count = 1;
};

/// The weights of one job: the model's, or small integers, for which results must be exact.
struct RankWeights {
  std::vector<model::Matrix> weights, biases;
  std::vector<TensorView> weight_views, bias_views;
  std::vector<DeviceBuffer> copies;            ///< on the GPU: first weights, then biases
  std::vector<std::vector<TensorView>> turns;  ///< on the GPU: turns[i] is for call i of a graph
};
/// Where a rank on a GPU keeps its tensors. A null GpuPlace pointer means host memory.
struct GpuPlace {
  Communicator* member = nullptr;
  void* stream = nullptr;
};
/// Copies the weights to the GPU and makes the views refer to the copies.
void move_to_gpu(RankWeights& weights, const GpuPlace& place);

RankWeights model_weights(const Workload& work, const Job& job, int rank);
RankWeights integer_weights(const Workload& work, const Job& job, int rank);

/// What must be prepared for all calls of a job with these values of m, including the plans that
/// are timed as candidates. `plain`: without bias and activation.
std::vector<Preparation> preparations(const Workload& work, const Job& job,
                                      const RankWeights& weights, const Machine& machine,
                                      bool plain, const std::vector<std::int64_t>& sizes);

/// An element of integer weight `index`: -1, 0 or 1. row, col: its place in the unsharded matrix.
int integer_weight(std::size_t index, std::int64_t row, std::int64_t col);
constexpr std::int64_t kMostTerms = 32;  ///< limit for non-zero elements in one part of a row
/// A non-zero element of a row of the unsharded integer operand. A row has integer_parts() equal
/// parts. integer_row lists one part's elements, which are few enough for exact sums in `dtype`.
struct Term {
  std::int64_t col = 0;
  int sign = 1;
};
std::vector<Term> integer_row(const model::LayerGemm& gemm, DType dtype, std::int64_t row,
                              int part);
/// How many parts the operand's columns are split into: one per rank if k is sharded, else one.
int integer_parts(const model::LayerGemm& gemm);

/// A matrix with guards, which show stray writes. Guards are a spare row and the padding of rows.
class GuardedMatrix {
 public:
  /// `reachable`: peers may write the matrix; on GPUs the constructor is then collective.
  GuardedMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const GpuPlace* place = nullptr,
                bool reachable = false);
  [[nodiscard]] const TensorView& view() const { return view_; }
  /// The tensor for the i-th call. On a GPU this is the call's own copy (Turns); all other members
  /// use the first copy.
  [[nodiscard]] TensorView call_view(int i = 0) const;
  /// Fills the matrix and its guards with NaNs.
  void poison();
  [[nodiscard]] bool intact() const;
  /// Copies the matrix from the GPU to the host.
  void fetch();

 private:
  [[nodiscard]] std::size_t bytes() const;

  model::Matrix memory_;
  TensorView view_;
  Turns turns_;
  std::optional<DeviceBuffer> copy_;
  std::optional<SymmetricBuffer> reachable_;
  std::byte* device_ = nullptr;
};

/// The tensors that one rank passes to calls of one size.
class CallTensors {
 public:
  /// `place` must outlive this object.
  CallTensors(const Workload& work, const Job& job, int rank, std::int64_t m,
              const GpuPlace* place = nullptr);

  /// On GPUs: copies the input to the GPU. fill_random and fill_integers call this function.
  void send_input();
  /// fill_random fills the input with dense random values, fill_integers with small integers.
  void fill_random();
  void fill_integers();
  void poison();
  [[nodiscard]] bool intact() const;

  /// On GPUs: makes the next calls use the tensors' copies for call i of a graph.
  void turn(int i);
  /// Calls the op. `plain`: without bias and activation. `gathered`: ag_gemm returns the gathered
  /// input, too.
  void call(Communicator&, const RankWeights&, const PlanOptions&, bool plain, bool gathered);
  /// Calls the op with this plan, which must have been made for this problem.
  void call(Communicator&, const RankWeights&, const Plan&);
  void call_gemm(Communicator&, const RankWeights&);
  void call_collective(Communicator&);
  /// On GPUs: waits for the calls and copies their results to the host.
  void settle();

  [[nodiscard]] const std::vector<GuardedMatrix>& outputs() const { return out_; }
  [[nodiscard]] std::size_t outputs_of(bool plain) const;
  /// The input of the GEMM alone: for ag_gemm the gathered rows, which call_collective writes.
  [[nodiscard]] TensorView operand() const {
    return gathers() ? gathered_.call_view(turn_) : call_input_;
  }
  /// The result of the GEMM alone: for gemm_rs and gemm_ar, the rank's partial.
  [[nodiscard]] TensorView product() const {
    return gathers() ? out_views_[0] : partial_.call_view(turn_);
  }
  /// Makes calls read this input. The second half of an MLP reads the first half's result.
  void take_input(const TensorView& input) { call_input_ = input; }
  [[nodiscard]] const TensorView& gathered() const { return gathered_.view(); }
  /// The rows of the unsharded result that this rank's outputs hold.
  [[nodiscard]] model::Slice out_rows() const { return out_rows_; }
  [[nodiscard]] std::int64_t m() const { return m_; }
  /// Writes row `row` of the unsharded random operand to `to`, a [1, full_k] view.
  void random_row(std::int64_t row, const TensorView& to) const;

 private:
  [[nodiscard]] void* stream() const { return place_ == nullptr ? nullptr : place_->stream; }
  [[nodiscard]] bool gathers() const { return row_of(gemm_.op).gathers; }
  [[nodiscard]] CallArgs args_of(const RankWeights&, bool plain, bool gathered) const;

  const model::LayerGemm& gemm_;
  std::int64_t m_;
  model::Slice rows_, cols_, out_rows_;  ///< own part: rows_, cols_ of operand; out_rows_ of result
  std::uint64_t key_;
  const GpuPlace* place_;
  model::Matrix input_;
  Turns input_turns_;
  std::optional<DeviceBuffer> input_copy_;
  int turn_ = 0;
  TensorView call_input_;
  std::vector<GuardedMatrix> out_;
  std::vector<TensorView> out_views_;
  GuardedMatrix gathered_;  ///< ag_gemm: [m, k]
  GuardedMatrix partial_;   ///< gemm_rs and gemm_ar: [m, n]
};

}  // namespace tilelace::cli
