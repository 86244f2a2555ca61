// SPDX-License-Identifier: Apache-2.0
// Facts about GPUs and work on GPUs. In a build without CUDA all functions throw usage errors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::cli {

struct GpuFacts {
  int count = 0;
  std::string name;    ///< of device 0
  std::string driver;  ///< kernel module's version or, if unknown, the driver's CUDA version
  int multiprocessors = 0;
  int architecture = 0;  ///< index of the GPU's row in core/architecture.h; 0 also if no row fits
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;  ///< computed from clock and bus width; 0: not known
  bool cublas = false;            ///< libcublasLt can be loaded
};

/// Errors: usage (a build without CUDA), system (no driver).
GpuFacts gpu_facts();

/// Whether this build has the kernel that the plan needs; true also if the plan needs no kernel.
bool gpu_has_kernel(const Plan& plan, DType dtype);

/// Makes `device` the current device of the calling thread. Error: system.
void take_gpu(int device);

/// Copies between host and device memory, in either direction.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace tilelace::cli
