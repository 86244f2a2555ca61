// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/ops/ag_gemm.h"
#include "backend/cuda/kernels/sm90/instances.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST() {
  KernelList all;
  add_kernels<AgGemm, plan::can_gather>(all, GemmUse::ag_gemm);
  add_kernels<GatedAgGemm, plan::can_gate>(all, GemmUse::gated_ag_gemm);
  return all;
}

}  // namespace tilelace::cuda
