// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives, timed beside ours, on each kind of NCCL's buffers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "collectives/work.h"
#include "gpu_times.h"

namespace tilelace::cli {

/// The version of libnccl, as "2.28.9"; empty if there is none.
std::string nccl_version_text();

struct CollectivePeer {
  std::string name;
  void* in = nullptr;  ///< in: where calls read; out: where they write
  void* out = nullptr;
  GpuCall call;
};

/// One rank's part of all of NCCL's collectives.
class CollectivePeers {
 public:
  /// Collective. Allocates buffers for the largest size of the work. Errors: usage (a build without
  /// CUDA or NCCL's header), system (no libnccl).
  CollectivePeers(Communicator& member, const CollectiveWork& work, std::size_t bytes,
                  GpuTimes& times);
  CollectivePeers(const CollectivePeers&) = delete;
  CollectivePeers& operator=(const CollectivePeers&) = delete;
  ~CollectivePeers();

  /// The collectives on those buffers that every rank could make; valid while this object lives.
  [[nodiscard]] std::vector<CollectivePeer> peers(const CollectiveShape& shape) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
