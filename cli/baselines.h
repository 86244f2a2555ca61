// SPDX-License-Identifier: Apache-2.0
// Baselines for calls on GPUs: cuBLASLt's fastest GEMM, NCCL's collective on each kind of NCCL
// buffer, and the two in sequence. A further baseline runs a GEMM at the same time as copies.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_times.h"
#include "operands.h"

namespace tilelace::cli {

/// One baseline, ready to be timed.
struct Peer {
  std::string name;
  std::optional<Way> way;  ///< the entry of Row::us for this baseline's time, if any
  GpuCall call;
  /// Clears the baseline's old results, makes one call and copies its results into the row's
  /// tensors, where they are checked. Empty: the results are not checked.
  std::function<void()> deliver = {};
};

/// One rank's part of all baselines.
class Baselines {
 public:
  /// Collective. Errors: usage (a build without CUDA or NCCL's header), system (no libnccl).
  Baselines(Communicator& member, const Workload& work, GpuTimes& times);
  Baselines(const Baselines&) = delete;
  Baselines& operator=(const Baselines&) = delete;
  ~Baselines();

  /// Collective. The baselines of a row (a job at one size), on copies of the row's operands. They
  /// are valid until the next call of peers() and while the tensors live. For an MLP, `deliver`
  /// copies the result of the second product.
  std::vector<Peer> peers(const Job& job, CallTensors& tensors, const RankWeights& weights);
  std::vector<Peer> peers(const Job& mlp, CallTensors& first, const RankWeights& first_weights,
                          CallTensors& then, const RankWeights& then_weights);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
