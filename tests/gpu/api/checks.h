// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "api/member.h"

namespace tilelace::gpu_test {

struct Check {
  std::string name;
  double timeout_s = 20;  ///< of its communicators
  bool needs_peers = false;
  Body body;
  bool launched = false;  ///< also for ranks that are processes
  int max_workers = 0;    ///< of its communicators
};

/// Shapes, both paths, parts alone; buffers.
std::vector<Check> result_checks();
/// gemm_rs and gemm_ar, and all ops in turns.
std::vector<Check> sum_checks();
/// Captured calls.
std::vector<Check> graph_checks();
/// Wrong arguments, each followed by a call that must be right; ranks that disagree.
std::vector<Check> misuse_checks();
std::vector<Check> sum_misuse_checks();
/// Transport nccl.
std::vector<Check> nccl_checks();
/// What keeps NCCL from being used here, as an error names it; empty: nothing.
std::string nccl_obstacle();
/// Communicators with a share of a device.
std::vector<Check> share_checks();
/// Ranks that do not come, and abort.
std::vector<Check> fault_checks();

}  // namespace tilelace::gpu_test
