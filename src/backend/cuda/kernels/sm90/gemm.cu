// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/ops/gemm_alone.h"
#include "backend/cuda/kernels/sm90/instances.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST() {
  KernelList all;
  add_kernels<Gemm, plan::can_multiply>(all, GemmUse::alone);
  add_kernels<GatedGemm, plan::can_gate>(all, GemmUse::gated);
  return all;
}

}  // namespace tilelace::cuda
