// SPDX-License-Identifier: Apache-2.0
// The backend of a rank with tensors on a GPU. RankOps, CollectiveCalls and GemmCall run its calls.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/collectives/collective_calls.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/moe/moe_passes.h"
#include "backend/cuda/rank_ops.h"
#include "core/recent.h"
#include "core/tensor_name.h"
#include "tilelace/error.h"

namespace tilelace::cuda {

class GpuBackend : public Backend {
 public:
  /// Errors: as make_cuda_backend.
  GpuBackend(comm::Group& group, const CommunicatorOptions& options);
  /// Waits for this device's work, which always ends, since waits in kernels are bounded.
  ~GpuBackend() override;

  [[nodiscard]] Machine machine() const override { return machine_; }
  void prepare(std::span<const PreparedCall> calls, Before before,
               std::string_view refusal) override;
  void run(const Problem& problem, const Plan& plan, const Operands& operands, Part part) override;
  void refuse_collective(std::string_view reason, void* stream) override;
  void prepare_collectives(std::string_view refusal) override;
  void collect(Collective, const CollectiveArgs& args, const CollectiveOptions& options) override;
  void collect_within(const Within& within, Collective, const CollectiveArgs& args) override;
  MoePasses& moe_passes() override { return moe_passes_; }
  [[nodiscard]] std::string describe(Collective, const CollectiveArgs& args,
                                     const CollectiveOptions& options) const override;
  void all_reduce_norm(const AllReduceNormArgs& args, const CollectiveOptions& options) override;
  [[nodiscard]] std::string describe(const AllReduceNormArgs& args,
                                     const CollectiveOptions& options) const override;
  void refuse(std::string_view reason, void* stream) override;
  void synchronize(void* stream, double bound_s) override;
  ReachableMemory allocate(std::size_t bytes) override;
  std::unique_ptr<RankMemory> make_memory(std::size_t bytes) override;
  [[nodiscard]] std::vector<std::string> findings() const override { return {}; }
  [[nodiscard]] const comm::LinkRow& link_to(int peer) const override;
  void take_tuning(const std::shared_ptr<const plan::TuningTable>& table) override {
    machine_.tuning = table;
    moe_passes_.take_machine(machine_);
  }
  [[nodiscard]] std::string device_name() const override { return name_; }
  [[nodiscard]] bool is_captured(void* stream) const override;
  [[nodiscard]] bool has_kernel(const Plan& plan, DType dtype) const override;

 private:
  /// Errors: usage (a rank is already in a call), peer, timeout.
  void meet_for_preparation();
  void meet();
  /// The calls as text, for ranks to compare. Errors: usage (no plan, a weight not on the device).
  [[nodiscard]] std::string described(std::span<const PreparedCall> calls) const;
  void refuse_preparation(std::string_view reason);
  /// The share of the device for these calls and the earlier ones, whose share was `before`.
  [[nodiscard]] RankShare share_of(std::span<const PreparedCall> calls, RankShare before) const;
  /// Releases what was prepared, or keeps it in `retired_` if graphs captured calls that use it.
  void retire();
  void throw_if_graphs_failed();
  /// Throws if nothing is prepared, a peer has left, or an earlier call has failed.
  void require_ready(std::string_view op);
  /// If ranks disagreed (a usage error), refuses calls from now on until all ranks prepare again.
  void fall_out(const Error& error);
  void check_tensors(const Problem& problem, const Operands& operands, Part part) const;
  /// Whether the stream belongs to this device. Errors: those of capture_of (base/capture_of.h).
  [[nodiscard]] bool owns(void* stream) const;
  void require_own_stream(std::string_view op, void* stream) const;
  void enqueue(const Problem& problem, const Plan& plan, const Operands& operands);
  void enqueue_gemm(const Problem& problem, const Operands& operands);
  /// A collective, ready to be enqueued. checked() makes it from arguments or throws a usage error.
  struct CheckedCollective;
  [[nodiscard]] CheckedCollective checked(Collective, const CollectiveArgs& args,
                                          const CollectiveOptions& options) const;
  [[nodiscard]] plan::CollectiveMachine collective_machine() const;
  void check_memory(const plan::NormCall& call, const AllReduceNormArgs& args) const;
  /// What all collectives do before and after `enqueue`, which checks and enqueues the call.
  void in_collectives(std::string_view name, void* stream, const std::function<void()>& enqueue);
  /// The plans of a problem's GEMMs without communication; cached by problem.
  const std::vector<plan::GemmPlan>& gemm_plans(const Problem& problem);
  /// Whether these weights were prepared and so do not change: kernels may read them before the
  /// stream gets to the call.
  [[nodiscard]] bool prepared(std::span<const TensorView> weights) const;
  /// Where peers can reach a tensor, if it is in a SymmetricBuffer.
  [[nodiscard]] ReachableTensor reachable(const TensorView& tensor) const;

  comm::Group& group_;
  CommunicatorOptions options_;
  int device_;
  std::string uuid_, name_;
  Machine machine_;
  std::vector<const comm::LinkRow*> links_;  ///< links by rank; empty before prepare
  bool shares_device_ = false;  ///< other communicators' kernels may run at the same time
  std::unique_ptr<GemmWorkspace> workspace_;      // for GEMMs without communication
  std::unique_ptr<RankOps> ops_;                  // null before prepare
  std::unique_ptr<CollectiveCalls> collectives_;  // null before the first collective
  std::string collectives_out_of_step_;           // why collectives are refused, or empty
  SlotNeeds needs_;                               // needs of the prepared calls
  RankShare share_;                               // share of the prepared calls
  struct Retired {
    std::unique_ptr<RankOps> ops;
    bool in_step;  ///< false: ranks disagreed, and waits of `ops` were ended
  };
  std::vector<Retired> retired_;  ///< earlier preparations that captured graphs use
  struct ProblemHash {
    std::size_t operator()(const Problem& p) const { return hash_value(p); }
  };
  Recent<Problem, std::vector<plan::GemmPlan>, ProblemHash> gemm_plans_{4096};
  std::vector<TensorView> weights_;  ///< the weights given to prepare
  /// Memory from allocate(), in the order of allocation, which is the same on all ranks.
  std::vector<std::weak_ptr<comm::DeviceMemory>> reachable_;
  void* last_stream_ = nullptr;  ///< the stream of the last call
  GpuMoePasses moe_passes_{device_};
  std::string out_of_step_;  ///< why calls are refused until prepare, or empty
};

/// Throws a usage error unless `t` has contiguous rows on this device, or is absent or empty.
void require_on_device(std::string_view op, TensorName, const TensorView&, int device);

std::unique_ptr<RankMemory> make_device_memory(int device, std::size_t bytes);

}  // namespace tilelace::cuda
