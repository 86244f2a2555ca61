// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "api/member.h"

namespace tilelace::gpu_test {

struct Check {
  std::string name;
  double timeout_s = 20;  ///< option of the check's communicators
  bool needs_peers = false;
  Body body;
  bool launched = false;  ///< whether ranks may also be processes
  int max_workers = 0;    ///< option of the check's communicators
};

/// Checks of ag_gemm: shapes, paths, the product or the gather alone, and buffers.
std::vector<Check> result_checks();
/// Checks of gemm_rs and gemm_ar, and of calls that alternate between all ops.
std::vector<Check> sum_checks();
/// Checks of captured calls.
std::vector<Check> graph_checks();
/// Checks of ranks that disagree, and of wrong arguments, each followed by a call that must be
/// right.
std::vector<Check> misuse_checks();
std::vector<Check> sum_misuse_checks();
/// Checks of transport nccl.
std::vector<Check> nccl_checks();
/// The part of the error text that says why NCCL cannot be used here; empty if it can be used.
std::string nccl_obstacle();
/// Checks of communicators with a share of a device.
std::vector<Check> share_checks();
/// Checks of calls in which a rank is missing, and of abort.
std::vector<Check> fault_checks();

}  // namespace tilelace::gpu_test
