// SPDX-License-Identifier: Apache-2.0
// Finds the row of core/architecture.h whose plans and kernels are checked on a device.
#pragma once
#include "backend/cuda/base/cuda_check.h"
#include "core/architecture.h"

namespace tilelace::gpu_test {

/// The row of a device, or the first row if the device has no kernels (launches then fail).
inline int architecture_of_device(int device) {
  int major = 0, minor = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
  cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
  return architecture_of(major, minor).value_or(0);
}

}  // namespace tilelace::gpu_test
