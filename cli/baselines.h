// SPDX-License-Identifier: Apache-2.0
// What calls on GPUs are compared with: cuBLASLt's fastest algorithm, NCCL's collectives on each
// kind of its buffers, one after the other, and a product beside copies that it does not wait for.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_times.h"
#include "operands.h"

namespace tilelace::cli {

/// One of them, ready to be timed.
struct Peer {
  std::string name;
  std::optional<Way> way;  ///< that it is one of
  GpuCall call;
  /// Makes a call on cleared memory and brings its results into the tensors; empty: not compared.
  std::function<void()> deliver = {};
};

/// A rank's side.
class Baselines {
 public:
  /// Collective. Errors: usage (a build without CUDA or NCCL's header), system (no library).
  Baselines(Communicator& member, const Workload& work, GpuTimes& times);
  Baselines(const Baselines&) = delete;
  Baselines& operator=(const Baselines&) = delete;
  ~Baselines();

  /// Collective. What there is for this row, on copies of its operands; as long as the tensors
  /// live, until it is called again. Of an MLP: `then`'s result is delivered.
  std::vector<Peer> peers(const Job& job, CallTensors& tensors, const RankWeights& weights);
  std::vector<Peer> peers(const Job& mlp, CallTensors& first, const RankWeights& first_weights,
                          CallTensors& then, const RankWeights& then_weights);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
