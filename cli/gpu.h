// SPDX-License-Identifier: Apache-2.0
// GPUs as the command needs them: what is there, and times. In a build without CUDA nothing is
// there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::cli {

struct GpuFacts {
  int count = 0;
  std::string name;    ///< of device 0
  std::string driver;  ///< as the kernel module says it
  int multiprocessors = 0;
  int architecture = 0;  ///< a row of core/architecture.h
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;  ///< by clock and bus; 0: not known
};

/// Errors: usage (a build without CUDA), system (no driver).
GpuFacts gpu_facts();

/// Whether this build has the kernel of the plan.
bool gpu_has_kernel(const Plan& plan, DType dtype);

/// This thread's device, of its rank's number, from now on. Error: system.
void take_gpu(int device);

/// Between host and device memory, whichever is which.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace tilelace::cli
