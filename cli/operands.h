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

/// Rows [begin, end) of the m rows that belong to this rank: even, remainder first.
model::Slice row_shard(std::int64_t m, int ranks, int rank);

/// Copies of a tensor that a GPU's calls take in turn, so many that L2 does not hold them together.
struct Turns {
  Turns() = default;
  explicit Turns(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const { return pitch * static_cast<std::size_t>(count); }
  /// Where the i-th call's is.
  [[nodiscard]] std::size_t at(int i) const { return static_cast<std::size_t>(i % count) * pitch; }

  std::size_t pitch = 0;
  int count = 1;
};

/// The weights of one job, either of the model or small integers (design: exact conformance).
struct RankWeights {
  std::vector<model::Matrix> weights, biases;
  std::vector<TensorView> weight_views, bias_views;
  std::vector<DeviceBuffer> copies;            ///< on the GPU, weights then biases
  std::vector<std::vector<TensorView>> turns;  ///< on the GPU: each call's weight_views, in turn
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

/// What all calls of a job need, candidates too, of these values of m. Plain: without bias and
/// activation.
std::vector<Preparation> preparations(const Workload& work, const Job& job,
                                      const RankWeights& weights, const Machine& machine,
                                      bool plain, const std::vector<std::int64_t>& sizes);

/// A value of the integer operands: -1, 0 or 1, by its place in the unsharded matrix.
int integer_weight(std::size_t index, std::int64_t row, std::int64_t col);
constexpr std::int64_t kMostTerms = 32;  ///< of a row in a part
/// The non-zero columns of row `row` of the unsharded operand, in part `part` of `parts` equal
/// ones; so few that sums over all parts are exact in the type.
struct Term {
  std::int64_t col = 0;
  int sign = 1;
};
std::vector<Term> integer_row(const model::LayerGemm& gemm, DType dtype, std::int64_t row,
                              int part);
/// Parts that the operand's columns are cut into: the ranks where k is split, else one.
int integer_parts(const model::LayerGemm& gemm);

/// A matrix with a row to spare; the spare row and the padding of all rows show stray writes.
class GuardedMatrix {
 public:
  /// `reachable`: on GPUs collective, peers may write it.
  GuardedMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const GpuPlace* place = nullptr,
                bool reachable = false);
  [[nodiscard]] const TensorView& view() const { return view_; }
  /// What the i-th call is given: on the GPU, if there is one, in turn. All else is of the first.
  [[nodiscard]] TensorView call_view(int i = 0) const;
  /// Fills everything with the bit pattern of NaNs.
  void poison();
  [[nodiscard]] bool intact() const;
  /// Brings what is on the GPU to the host.
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

  /// On GPUs: the next calls' tensors.
  void turn(int i);
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
  /// What the product alone takes: of ag_gemm the gathered rows, once call_collective has run.
  [[nodiscard]] TensorView operand() const {
    return gathers() ? gathered_.call_view(turn_) : call_input_;
  }
  /// Where the product alone goes: of a sum the rank's part.
  [[nodiscard]] TensorView product() const {
    return gathers() ? out_views_[0] : partial_.call_view(turn_);
  }
  /// Of an MLP's second half: the first one's result.
  void take_input(const TensorView& input) { call_input_ = input; }
  [[nodiscard]] const TensorView& gathered() const { return gathered_.view(); }
  /// The rows of the unsharded result that this rank's outputs hold.
  [[nodiscard]] model::Slice out_rows() const { return out_rows_; }
  [[nodiscard]] std::int64_t m() const { return m_; }
  /// Row `row` of the unsharded random operand into to[0], a [1, full_k] view.
  void random_row(std::int64_t row, const TensorView& to) const;

 private:
  [[nodiscard]] void* stream() const { return place_ == nullptr ? nullptr : place_->stream; }
  [[nodiscard]] bool gathers() const { return row_of(gemm_.op).gathers; }
  [[nodiscard]] CallArgs args_of(const RankWeights&, bool plain, bool gathered) const;

  const model::LayerGemm& gemm_;
  std::int64_t m_;
  model::Slice rows_, cols_, out_rows_;  ///< of the unsharded operand, operand and result
  std::uint64_t key_;
  const GpuPlace* place_;
  model::Matrix input_;
  Turns input_turns_;
  std::optional<DeviceBuffer> input_copy_;
  int turn_ = 0;
  TensorView call_input_;
  std::vector<GuardedMatrix> out_;
  std::vector<TensorView> out_views_;
  GuardedMatrix gathered_;  ///< ag_gemm [m, k]
  GuardedMatrix partial_;   ///< reductions [m, n]
};

}  // namespace tilelace::cli
