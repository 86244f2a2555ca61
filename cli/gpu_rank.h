// SPDX-License-Identifier: Apache-2.0
// A rank on a GPU while it measures.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "baselines.h"
#include "ranks.h"
#include "row.h"

namespace tilelace::cli {

struct GpuRank {
  /// Collective.
  GpuRank(const Workload& work, Communicator& member, const Send& send);

  /// Collective. The fastest of candidates_of that this build has kernels for; nothing where there
  /// are no candidates. `call`: the i-th of a graph, by a plan. `took`: what they took.
  std::optional<Plan> fastest(const Job& job, std::int64_t m,
                              const std::function<void(int, const Plan&)>& call,
                              std::vector<CallTime>& took);
  /// Collective. Where plans are tuned, unless forced: that nobody else has work on a rank's GPU
  /// and that heat does not slow it down. Error, on every rank: system.
  void require_quiet();
  /// Collective. Of each call, as many as the workload asks for.
  std::vector<std::vector<double>> samples(const std::vector<GpuCall>& calls);

  const Workload& work;
  Communicator& member;
  const Send& send;
  GpuTimes times;
  GpuPlace place;
  std::optional<Baselines> baselines;
};

/// Checks and times an MLP, number `index` of the jobs; sends a RankPart for each size.
void measure_mlp(GpuRank& rank, int index);

}  // namespace tilelace::cli
