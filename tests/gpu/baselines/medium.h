// SPDX-License-Identifier: Apache-2.0
// The medium-grained way of ag_gemm: a product a shard, each launched as the shard's copy-engine
// push lands; the own shard first. Slots, epochs and flags are those of the library, so that there
// is no barrier and all of it can be captured.
#pragma once
#include <memory>

#include "backend/cuda/copy_engine.h"
#include "backend/cuda/wait_control.h"
#include "comm/cuda/device_memory.h"
#include "gemms.h"

namespace tilelace::gpu_test {

class Medium {
 public:
  /// Collective: staging for the largest of these rows. Errors: the group's, system.
  Medium(Rank& rank, const std::vector<Row>& rows);
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
  ~Medium();

  /// Enqueues a call on the rank's stream: products alternately by `gemms`, each with a workspace
  /// of its own, on a stream of its own. An even number of calls a graph.
  void run(const Row& row, const Call& call, const std::byte* own,
           std::initializer_list<const BestBlas*> gemms);
  /// Waits for them; errors: timeout, peer, system.
  void finish();

 private:
  Rank& rank_;
  cuda::WaitControl control_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  std::unique_ptr<cuda::CopyEngine> engine_;
  cudaStream_t side_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::size_t calls_ = 0;
};

}  // namespace tilelace::gpu_test
