// SPDX-License-Identifier: Apache-2.0
// A product beside copy-engine pushes of as many bytes as the op moves, where neither waits for the
// other: what the op's traffic costs the product on this machine (power, memory, links), and so
// what no way that hides it behind this product will fall below.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "backend/cuda/copy_engine.h"
#include "comm/cuda/device_memory.h"
#include "gemms.h"

namespace tilelace::gpu_test {

class Beside {
 public:
  /// Collective: memory for what the largest of these rows receives. Errors: the group's, system.
  Beside(Rank& rank, const std::vector<Row>& rows);

  /// Enqueues a call on the rank's stream. `own`: what goes to every peer, row.shard_bytes().
  void run(const Row& row, const std::byte* own, const std::function<void()>& product);

 private:
  Rank& rank_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  std::unique_ptr<cuda::CopyEngine> engine_;
  std::size_t pitch_ = 0;
};

}  // namespace tilelace::gpu_test
