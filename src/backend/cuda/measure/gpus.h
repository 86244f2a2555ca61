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
  // Between GPUs, per GPU and direction; 0 if there is only one GPU.
  double push_gbps = 0;          ///< copy engine, writes
  double pull_gbps = 0;          ///< copy engine, reads
  double store_gbps = 0;         ///< stores of 32 CTAs in total
  double store_worker_gbps = 0;  ///< bulk stores of each of eight CTAs
  double latency_us = 0;         ///< from raising a flag to seeing it in a running kernel of a peer
  double copy_us = 0;            ///< a copy, apart from the time of its bytes
  double flag_us = 0;            ///< a copy of four bytes, in a sequence of such copies
};

/// Reports progress. Called by one thread before each of `total` steps.
using Say = std::function<void(int done, int total, const std::string& step)>;

/// Measures all GPUs at once, each by a thread; the slowest GPU's figures count. GEMMs run in CUDA
/// graphs on random normal operands that do not fit L2; each sample follows 40 ms of the same GEMM.
/// Takes about 20 s and 3 GB per GPU. Transfers between GPUs are checked before they are timed.
/// Errors: system (no driver, no GPU, a wait that does not end, a transfer that brings wrong data).
GpuRates measure_gpus(const Say& say);

}  // namespace tilelace::cuda::measure
