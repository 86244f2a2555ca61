// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/ops/gemm_ar.h"
#include "backend/cuda/kernels/sm90/instances.h"
#include "backend/cuda/kernels/sm90/residual.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST() {
  KernelList all;
  add_kernels<GemmAr, plan::can_share>(all, GemmUse::gemm_ar);
  return all;
}

}  // namespace tilelace::cuda
