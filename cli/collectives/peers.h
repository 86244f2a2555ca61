// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives, as baselines for our collectives, on each kind of NCCL buffer.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "collectives/work.h"
#include "gpu_times.h"

namespace tilelace::cli {

/// The version of libnccl, such as "2.28.9"; empty if there is no libnccl.
std::string nccl_version_text();

struct CollectivePeer {
  std::string name;
  void* in = nullptr;  ///< calls read `in` and write `out`
  void* out = nullptr;
  GpuCall call;
};

/// One rank's part of all of NCCL's collectives.
class CollectivePeers {
 public:
  /// Collective. `bytes`: size of each buffer, which must be the largest size in `work`. Errors:
  /// usage (a build without CUDA or NCCL's header), system (no libnccl).
  CollectivePeers(Communicator& member, const CollectiveWork& work, std::size_t bytes,
                  GpuTimes& times);
  CollectivePeers(const CollectivePeers&) = delete;
  CollectivePeers& operator=(const CollectivePeers&) = delete;
  ~CollectivePeers();

  /// One entry for each kind of buffer that every rank could allocate; valid while *this lives.
  [[nodiscard]] std::vector<CollectivePeer> peers(const CollectiveShape& shape) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
