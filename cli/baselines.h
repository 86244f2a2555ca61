// SPDX-License-Identifier: Apache-2.0
// What calls on GPUs are compared with: cuBLASLt's fastest algorithm, then NCCL's collective on
// each kind of NCCL's buffers; and a GEMM that runs beside copies without waiting for them.
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
  std::optional<Way> way;  ///< the way of a row that this baseline times, if any
  GpuCall call;
  /// Clears its memory, makes a call and copies the results into the tensors, to be compared.
  /// Empty: results are not compared.
  std::function<void()> deliver = {};
};

/// One rank's part of all baselines.
class Baselines {
 public:
  /// Collective. Errors: usage (a build without CUDA or NCCL's header), system (no library).
  Baselines(Communicator& member, const Workload& work, GpuTimes& times);
  Baselines(const Baselines&) = delete;
  Baselines& operator=(const Baselines&) = delete;
  ~Baselines();

  /// Collective. The baselines that this row has, on copies of its operands. They are valid until
  /// the next call, while the tensors live. For an MLP the result of its second product is
  /// delivered.
  std::vector<Peer> peers(const Job& job, CallTensors& tensors, const RankWeights& weights);
  std::vector<Peer> peers(const Job& mlp, CallTensors& first, const RankWeights& first_weights,
                          CallTensors& then, const RankWeights& then_weights);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
