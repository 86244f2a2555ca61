// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives, timed beside ours, each on a kind of its buffers.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "collectives/work.h"
#include "gpu_times.h"

namespace tilelace::cli {

/// "2.28.9", empty where there is no library.
std::string nccl_version_text();

struct CollectivePeer {
  std::string name;
  void* in = nullptr;  ///< where calls read; out: where they write
  void* out = nullptr;
  GpuCall call;
};

/// A rank's side.
class CollectivePeers {
 public:
  /// Collective. Room for calls of so many bytes. Errors: usage (a build without CUDA or NCCL's
  /// header), system (no library).
  CollectivePeers(Communicator& member, const CollectiveWork& work, std::size_t bytes,
                  GpuTimes& times);
  CollectivePeers(const CollectivePeers&) = delete;
  CollectivePeers& operator=(const CollectivePeers&) = delete;
  ~CollectivePeers();

  /// Those whose buffers are there on every rank; as long as this object lives.
  [[nodiscard]] std::vector<CollectivePeer> peers(const CollectiveShape& shape) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cli
