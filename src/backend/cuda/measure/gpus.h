// SPDX-License-Identifier: Apache-2.0
// Measures this process's GPUs: GEMMs, copies, links. Includes no CUDA header, so that the command
// can include it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tilelace::cuda::measure {

/// Time of a[m, k] * weight[n, k]^T in bf16 by the vendor's fastest algorithm.
struct TimedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  double us = 0;
};

struct GpuRates {
  std::string name;
  int gpus = 0;
  int multiprocessors = 0;
  int compute_major = 0, compute_minor = 0;
  double clock_ghz = 0;  ///< the GPU's highest clock
  std::vector<TimedProduct> products;
  double local_gbps = 0;  ///< copies inside a device
  // Between GPUs: rates are per GPU and direction. All values are 0 if there is only one GPU.
  double push_gbps = 0;          ///< writes by a copy engine
  double pull_gbps = 0;          ///< reads by a copy engine
  double store_gbps = 0;         ///< stores by 32 CTAs, all together
  double store_worker_gbps = 0;  ///< bulk stores by one CTA while eight CTAs run
  double latency_us = 0;         ///< from raising a flag until a running kernel of a peer sees it
  double copy_us = 0;            ///< time of a copy less the time of its bytes
  double flag_us = 0;            ///< time per copy of four bytes, in a sequence of such copies
};

/// Reports progress. Called by one thread before each of `total` steps.
using Say = std::function<void(int done, int total, const std::string& step)>;

/// Measures all GPUs at once, each by a thread, and returns the slowest GPU's figures. GEMMs run in
/// CUDA graphs on normal operands that do not fit L2; each sample follows 40 ms of the same GEMM.
/// Takes about 20 s and 3 GB per GPU. Transfers between GPUs are checked before they are timed.
/// Errors: system (no driver, no GPU, a wait that does not end, a transfer of wrong data).
GpuRates measure_gpus(const Say& say);

}  // namespace tilelace::cuda::measure
