// SPDX-License-Identifier: Apache-2.0
// A rank that times calls on its GPU.
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

  /// Collective. Times the plans of candidates_of that this build has kernels for and returns the
  /// fastest plan, or nothing if candidates_of returns no plan. call(i, plan) makes call i of a
  /// graph, with `plan`. The candidates' times are appended to `took`.
  std::optional<Plan> fastest(const Job& job, std::int64_t m,
                              const std::function<void(int, const Plan&)>& call,
                              std::vector<CallTime>& took);
  /// Collective. If the work tunes plans without `force`, this checks that no other process uses a
  /// rank's GPU and that neither heat nor a fault slows a GPU down. Error, on every rank: system.
  void require_quiet();
  /// Collective. Takes as many samples of each call as the workload asks for.
  std::vector<std::vector<double>> samples(const std::vector<GpuCall>& calls);

  const Workload& work;
  Communicator& member;
  const Send& send;
  GpuTimes times;
  GpuPlace place;
  std::optional<Baselines> baselines;
};

/// Checks and times the MLP that is job `index`; sends a RankPart for each size.
void measure_mlp(GpuRank& rank, int index);

}  // namespace tilelace::cli
