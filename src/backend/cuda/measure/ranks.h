// SPDX-License-Identifier: Apache-2.0
// Ranks for measurements: threads of this process, each with a device and a stream.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "comm/group.h"

namespace tilelace::cuda::measure {

/// Timeout for meetings of the ranks' host threads.
constexpr double kMeetSeconds = 40;

/// A rank's thread, on which its device is current.
struct Rank {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  comm::Group* group = nullptr;
  cudaStream_t stream = nullptr;

  /// A barrier of all ranks' host threads.
  void meet() const { group->all_gather({}, kMeetSeconds); }
  /// Gathers the numbers of all ranks. Entry r of the result is rank r's.
  [[nodiscard]] std::vector<std::vector<double>> gather(const std::vector<double>& mine) const;
  [[nodiscard]] double max(double mine) const;
};

/// Runs body on a thread per rank, rank r on device r modulo the number of devices. If a rank
/// throws, the group ends, and the first error that no other error caused is thrown here.
void run_ranks(int ranks, const std::function<void(Rank&)>& body);

/// Seconds by the monotonic clock, which all processes share.
double now_s();

}  // namespace tilelace::cuda::measure
