// SPDX-License-Identifier: Apache-2.0
// Finds a device's row in core/architecture.h: the row whose plans and kernels are checked on it.
#pragma once
#include "backend/cuda/base/cuda_check.h"
#include "core/architecture.h"

namespace tilelace::gpu_test {

/// The row of a device. If there are no kernels for it, the first row; launches then report that.
inline int architecture_of_device(int device) {
  int major = 0, minor = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
  cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
  return architecture_of(major, minor).value_or(0);
}

}  // namespace tilelace::gpu_test
