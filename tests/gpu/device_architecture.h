// SPDX-License-Identifier: Apache-2.0
// Of a device, the row of core/architecture.h: whose plans and kernels its checks take.
#pragma once
#include "backend/cuda/base/cuda_check.h"
#include "core/architecture.h"

namespace tilelace::gpu_test {

/// Of one that there are no kernels for, the first row: launches then say so.
inline int architecture_of_device(int device) {
  int major = 0, minor = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
  cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
  return architecture_of(major, minor).value_or(0);
}

}  // namespace tilelace::gpu_test
