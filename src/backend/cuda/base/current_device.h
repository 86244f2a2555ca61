// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/base/cuda_check.h"

namespace tilelace::cuda {

/// The device of this thread. Error: system.
inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// Number of SMs of a device. Error: system.
inline int multiprocessors_of(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "reading the multiprocessor count");
  return count;
}

}  // namespace tilelace::cuda
