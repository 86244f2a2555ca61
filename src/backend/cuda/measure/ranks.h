// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, with a device and a stream each, for measurements.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "comm/group.h"

namespace tilelace::cuda::measure {

/// Timeout when the ranks' host threads meet.
constexpr double kMeetSeconds = 40;

/// A rank's thread, its device current.
struct Rank {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  comm::Group* group = nullptr;
  cudaStream_t stream = nullptr;

  /// A barrier of all ranks' host threads.
  void meet() const { group->all_gather({}, kMeetSeconds); }
  /// Gathers each rank's numbers, by rank.
  [[nodiscard]] std::vector<std::vector<double>> gather(const std::vector<double>& mine) const;
  [[nodiscard]] double max(double mine) const;
};

/// Runs body on one thread per rank, rank r on device r modulo the number of devices. A rank that
/// throws ends the group; the first error that is not caused by another one is thrown here.
void run_ranks(int ranks, const std::function<void(Rank&)>& body);

/// Seconds of the monotonic clock, the same in every process.
double now_s();

}  // namespace tilelace::cuda::measure
